//! Metrics for Prometheus.
//!
//! Every crate records through the `metrics` facade; this module collects and renders. Histogram samples accumulate
//! until they are folded into their buckets. A scrape does that, and so does [`Metrics::fold`] periodically, so that a
//! process without a scraper does not grow.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::{
    extract::State,
    http::{Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use reveille_wake::Metric;

use super::exposition::{self, MetricFamily};
use super::health::Health;
use crate::{error::Error, products};

/// The Prometheus text format's own media type.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How often samples are folded without a scrape: at a hundred thousand samples a second, less than ten megabytes
/// accumulate.
const FOLD_EVERY: Duration = Duration::from_secs(10);

/// Bucket bounds of durations: from a wake-up within the process to a long poll that timed out.
const SECONDS: &[f64] = &[
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

/// Bucket bounds of counts, such as the writes of a batch.
const COUNTS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

/// The server's own metrics.
pub const METRICS: &[Metric] = &[
    Metric { name: BUILD_INFO, kind: "gauge", about: "always 1; its labels are the build's properties" },
    Metric { name: READY, kind: "gauge", about: "1 if the process was ready at the last check, else 0" },
    Metric { name: REQUESTS, kind: "counter", about: "HTTP requests, by method, route and status" },
    Metric {
        name: REQUEST_SECONDS,
        kind: "histogram",
        about: "time from a request's headers to its response, by method and route",
    },
    Metric { name: CONNECTIONS, kind: "gauge", about: "open HTTP connections" },
    Metric {
        name: SHORTAGES,
        kind: "counter",
        about: "statements that failed because the database server lacks a resource, by reason",
    },
    Metric { name: CLOSED_IDLE, kind: "counter", about: "idle HTTP connections closed because a limit was reached" },
    Metric { name: REFUSED, kind: "counter", about: "HTTP connections refused because a limit was reached" },
    Metric { name: OTLP_SPANS, kind: "counter", about: "spans for the OTLP collector, by outcome" },
    Metric { name: HANDSHAKES_FAILED, kind: "counter", about: "TLS handshakes that failed, by reason" },
];

const BUILD_INFO: &str = "reveille_build_info";
const READY: &str = "reveille_ready";
const REQUESTS: &str = "reveille_http_requests_total";
const REQUEST_SECONDS: &str = "reveille_http_request_seconds";
const CONNECTIONS: &str = "reveille_http_connections";
const SHORTAGES: &str = "reveille_database_shortages_total";
const CLOSED_IDLE: &str = "reveille_http_connections_closed_idle_total";
const REFUSED: &str = "reveille_http_connections_refused_total";
const OTLP_SPANS: &str = "reveille_otlp_spans_total";
const HANDSHAKES_FAILED: &str = "reveille_http_tls_handshakes_failed_total";

/// A source of values that are read on every scrape.
pub trait ScrapeSource: Send + Sync {
    /// The current values. Every scrape waits for them.
    fn collect(&self) -> Pin<Box<dyn Future<Output = Vec<MetricFamily>> + Send + '_>>;
}

/// The collected metrics. Cheap to clone.
#[derive(Clone)]
pub struct Metrics(PrometheusHandle, Arc<OnceLock<Arc<dyn ScrapeSource>>>);

impl Metrics {
    /// Starts collecting. Once per process.
    pub fn install() -> Result<Self, Error> {
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), SECONDS)
            .and_then(|builder| builder.set_buckets(COUNTS))
            .map_err(|source| Error::Metrics { source: Box::new(source) })?
            .build_recorder();
        let handle = recorder.handle();
        metrics::set_global_recorder(recorder).map_err(|_| Error::Metrics { source: "already collecting".into() })?;
        for Metric { name, kind, about } in METRICS.iter().chain(products::metrics()) {
            match *kind {
                "counter" => describe_counter!(*name, *about),
                "gauge" => describe_gauge!(*name, *about),
                _ => describe_histogram!(*name, *about),
            }
        }
        gauge!(BUILD_INFO, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
        Ok(Self(handle, Arc::default()))
    }

    /// Folds samples into their buckets periodically, so that memory stays bounded without a scraper. Never returns.
    ///
    /// # Cancel safety
    /// Dropping the future stops the folding.
    pub async fn fold(self) {
        loop {
            tokio::time::sleep(FOLD_EVERY).await;
            self.0.run_upkeep();
        }
    }

    /// Sets the source that every scrape reads once the server has started. Later calls have no effect.
    pub fn collect(&self, source: Arc<dyn ScrapeSource>) {
        let _ = self.1.set(source);
    }

    async fn render(&self, started: bool) -> String {
        let scraped = match self.1.get().filter(|_| started) {
            Some(source) => exposition::write(&source.collect().await),
            None => String::new(),
        };
        for (shortage, count) in reveille_pg::shortage::counts() {
            counter!(SHORTAGES, "reason" => shortage.name()).absolute(count);
        }
        self.0.run_upkeep();
        self.0.render() + &scraped
    }

    /// The text of all metrics; statistics once the server has started.
    pub(crate) async fn text(&self) -> String {
        self.render(true).await
    }
}

/// `GET /metrics`, `GET /metrics/prometheus`.
pub(super) async fn scrape(State((metrics, health)): State<(Metrics, Arc<Health>)>) -> Response {
    gauge!(READY).set(if health.last_known_ready() { 1.0 } else { 0.0 });
    // Before the start the tables may not exist.
    let text = metrics.render(health.not_started().is_none()).await;
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response()
}

/// Counts and times a request.
pub(super) fn request(method: &'static str, route: String, status: StatusCode, took: Duration) {
    counter!(REQUESTS, "method" => method, "route" => route.clone(), "status" => status.as_str().to_owned())
        .increment(1);
    histogram!(REQUEST_SECONDS, "method" => method, "route" => route).record(took);
}

/// Changes the number of open connections.
pub(super) fn connections(by: f64) {
    gauge!(CONNECTIONS).increment(by);
}

/// An idle connection was closed for another.
pub(super) fn connection_closed() {
    counter!(CLOSED_IDLE).increment(1);
}

/// A connection was refused because a limit was reached.
pub(super) fn connection_refused() {
    counter!(REFUSED).increment(1);
}

/// Counts spans that were `sent` to a collector, `failed` to be, or `dropped` before.
pub(crate) fn otlp_spans(outcome: &'static str, spans: usize) {
    counter!(OTLP_SPANS, "outcome" => outcome).increment(spans as u64);
}

/// A TLS handshake failed: it was `refused`, or `slow`.
pub(super) fn handshake_failed(reason: &'static str) {
    counter!(HANDSHAKES_FAILED, "reason" => reason).increment(1);
}

/// The label of a method; unknown ones are `other`, so that the number of labels is bounded.
pub(super) fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
