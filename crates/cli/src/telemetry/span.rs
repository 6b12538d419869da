//! Spans: from the events that libraries write, to what a collector reads.

use std::{
    fmt,
    time::{SystemTime, UNIX_EPOCH},
};

use axum::http::StatusCode;
use reveille_web::{RequestId, SPAN_TARGET, TraceContext};
use serde_json::{Value, json};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, filter::Targets, layer::Context};

use super::{Telemetry, export::Item};
use crate::http::otlp_spans;

/// OTLP's number of a span that answers a request.
const SERVER: u64 = 2;
/// OTLP's number of a failed status.
const FAILED: u64 = 2;

/// The time as OTLP counts it.
pub(crate) fn nanoseconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// Reports an answered request. `started` is its time; `None` if spans are not collected.
pub(crate) fn request(
    started: u64,
    context: Option<TraceContext>,
    id: &RequestId,
    method: &'static str,
    route: &str,
    status: StatusCode,
) {
    // The client has decided not to record this trace.
    if context.is_some_and(|context| !context.is_sampled()) {
        return;
    }
    let name = format!("{method} {route}");
    let (trace, parent) = context.map(|context| (context.trace_id(), context.parent_id())).unwrap_or_default();
    tracing::trace!(
        target: SPAN_TARGET, name, trace, parent, kind = SERVER, started_ns = started,
        failed = status.is_server_error(), http.request.method = method, http.route = route,
        http.response.status_code = status.as_u16(), reveille.request_id = id.as_str(),
    );
}

/// A layer of the log that takes the events that are spans.
pub(crate) struct Collected(pub(super) Telemetry);

impl Collected {
    /// The layer with its filter, which disables all other events.
    pub(crate) fn filtered<S>(self) -> impl Layer<S>
    where
        S: Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
    {
        self.with_filter(Targets::new().with_target(SPAN_TARGET, Level::TRACE))
    }
}

impl<S: Subscriber> Layer<S> for Collected {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut span = Span { ended: nanoseconds(), ..Span::default() };
        event.record(&mut span);
        if self.0.0.try_send(Item::Span(span.into_json())).is_err() {
            otlp_spans("dropped", 1);
        }
    }
}

/// A span while its fields are read.
#[derive(Default)]
struct Span {
    name: String,
    trace: String,
    span: String,
    parent: String,
    kind: u64,
    started: u64,
    ended: u64,
    failed: bool,
    attributes: Vec<Value>,
}

impl Span {
    fn attribute(&mut self, field: &Field, value: Value) {
        self.attributes.push(json!({"key": field.name(), "value": value}));
    }

    fn text(&mut self, field: &Field, value: &str) {
        match field.name() {
            "name" => self.name = value.to_owned(),
            "trace" => self.trace = value.to_owned(),
            "span" => self.span = value.to_owned(),
            "parent" => self.parent = value.to_owned(),
            _ => self.attribute(field, json!({"stringValue": value})),
        }
    }

    /// The span in OTLP's JSON: ids as hexadecimal digits, large numbers as text.
    fn into_json(self) -> Value {
        let trace = if self.trace.is_empty() { format!("{:032x}", fastrand::u128(1..)) } else { self.trace };
        let span = if self.span.is_empty() { format!("{:016x}", fastrand::u64(1..)) } else { self.span };
        let status = if self.failed { json!({"code": FAILED}) } else { json!({}) };
        json!({
            "traceId": trace, "spanId": span, "parentSpanId": self.parent, "name": self.name,
            "kind": if self.kind == 0 { 1 } else { self.kind },
            "startTimeUnixNano": self.started.min(self.ended).to_string(), "endTimeUnixNano": self.ended.to_string(),
            "attributes": self.attributes, "status": status,
        })
    }
}

impl Visit for Span {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "started_ns" => self.started = value,
            "kind" => self.kind = value,
            _ => self.attribute(field, json!({"intValue": value.to_string()})),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.attribute(field, json!({"intValue": value.to_string()}));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        match field.name() {
            "failed" => self.failed = value,
            _ => self.attribute(field, json!({"boolValue": value})),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field, &format!("{value:?}"));
    }
}
