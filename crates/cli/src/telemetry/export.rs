//! Sends spans to the collector.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout, timeout_at},
};

use super::{Telemetry, span::Collected};
use crate::{
    client::{Client, Error, Route},
    http::otlp_spans,
};

/// Spans that wait for the exporter. Each has about a kilobyte.
const WAITING_MAX: usize = 4_096;
/// Spans of one request: about half a megabyte.
const BATCH_MAX: usize = 512;
/// How long the first span of a batch waits for others.
const LINGER: Duration = Duration::from_secs(1);
/// How long the collector may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How often a failing collector is logged at most.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// What the exporter receives.
pub(super) enum Item {
    /// A span in OTLP's JSON.
    Span(Value),
    /// Send what is there, and say so.
    Flush(oneshot::Sender<()>),
}

/// Sends what the log's layer collects.
pub(crate) struct Exporter {
    received: mpsc::Receiver<Item>,
    client: Client,
    warnings: Warnings,
}

impl Exporter {
    /// An exporter to `client`, the layer that feeds it, and a handle.
    pub(crate) fn new(client: Client) -> (Exporter, Collected, Telemetry) {
        let (sender, received) = mpsc::channel(WAITING_MAX);
        let telemetry = Telemetry(sender);
        (Exporter { received, client, warnings: Warnings::default() }, Collected(telemetry.clone()), telemetry)
    }

    /// Sends batches until every sender is gone. Without spans it does nothing, not even wait for a timer.
    ///
    /// # Cancel safety
    /// Dropping the future loses the spans that wait.
    pub(crate) async fn run(mut self) {
        while let Some(first) = self.received.recv().await {
            let deadline = Instant::now() + LINGER;
            let (mut spans, mut flushed) = (Vec::new(), Vec::new());
            let mut next = Some(first);
            while let Some(item) = next {
                match item {
                    Item::Span(span) => spans.push(span),
                    Item::Flush(done) => flushed.push(done),
                }
                let is_over = spans.len() >= BATCH_MAX || !flushed.is_empty();
                next = match is_over {
                    true => None,
                    false => timeout_at(deadline, self.received.recv()).await.ok().flatten(),
                };
            }
            if !spans.is_empty() {
                let number = spans.len();
                let sent = send(&self.client, Route::new("/v1/traces"), &traces(spans)).await;
                otlp_spans(if sent.is_ok() { "sent" } else { "failed" }, number);
                self.warnings.note(sent);
            }
            for done in flushed {
                let _ = done.send(());
            }
        }
    }
}

/// Warns of a collector that fails, now and then.
#[derive(Default)]
pub(super) struct Warnings {
    last: Option<Instant>,
}

impl Warnings {
    pub(super) fn note(&mut self, sent: Result<(), Error>) {
        let Err(error) = sent else { return };
        if self.last.is_none_or(|last| last.elapsed() >= WARN_EVERY) {
            self.last = Some(Instant::now());
            let error = crate::error::explain(&error);
            tracing::warn!(error, "the collector of traces and metrics does not take them");
        }
    }
}

/// Posts a document to the collector.
pub(super) async fn send(client: &Client, route: Route, document: &Value) -> Result<(), Error> {
    match timeout(ANSWER_WITHIN, client.post(&route, document)).await {
        Ok(sent) => sent.map(drop),
        Err(_) => Err(Error::Silent { server: client.address().to_string(), within: ANSWER_WITHIN }),
    }
}

/// What every document says about this process.
pub(super) fn resource() -> Value {
    let text = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    json!({"attributes": [text("service.name", "reveille"), text("service.version", env!("CARGO_PKG_VERSION")),
                          text("process.pid", &std::process::id().to_string())]})
}

/// The part of a program that made a document.
pub(super) fn scope() -> Value {
    json!({"name": "reveille", "version": env!("CARGO_PKG_VERSION")})
}

fn traces(spans: Vec<Value>) -> Value {
    json!({"resourceSpans": [{"resource": resource(), "scopeSpans": [{"scope": scope(), "spans": spans}]}]})
}
