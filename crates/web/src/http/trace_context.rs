//! The trace that a request belongs to: W3C trace context, the header `traceparent`.
//!
//! A library has no exporter. It reports a finished span as an event with the target [`SPAN_TARGET`], which costs
//! nothing unless the program collects it. The fields `name`, `trace`, `parent`, `span`, `kind`, `started_ns` and
//! `failed` describe the span, which ends with the event; other fields are its attributes. Attributes are names and
//! numbers: no payload, and no secret.

use axum::http::{HeaderMap, HeaderName};

/// The target of the events that are spans, of level trace.
pub const SPAN_TARGET: &str = "reveille::span";

/// What a client says about the trace of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace: u128,
    parent: u64,
    sampled: bool,
}

impl TraceContext {
    /// The header of a request.
    pub const HEADER: HeaderName = HeaderName::from_static("traceparent");

    /// The trace of a request. `None` if there is no header, or one that is not valid: then a new trace begins.
    pub fn of(headers: &HeaderMap) -> Option<TraceContext> {
        let text = headers.get(Self::HEADER)?.to_str().ok()?;
        let mut parts = text.split('-');
        let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        // Later versions may append parts.
        let is_version = hex(version, 2)? < 0xff && (version != "00" || parts.next().is_none());
        let context =
            TraceContext { trace: hex(trace, 32)?, parent: hex(parent, 16)? as u64, sampled: hex(flags, 2)? & 1 == 1 };
        (is_version && context.trace != 0 && context.parent != 0).then_some(context)
    }

    /// The trace, as 32 hexadecimal digits.
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.trace)
    }

    /// The client's span, as 16 hexadecimal digits.
    pub fn parent_id(&self) -> String {
        format!("{:016x}", self.parent)
    }

    /// Whether the client records the trace.
    pub fn is_sampled(&self) -> bool {
        self.sampled
    }
}

/// Whether spans are collected. If not, they need not be put together.
pub fn is_collected() -> bool {
    tracing::enabled!(target: SPAN_TARGET, tracing::Level::TRACE)
}

/// The trace that a stored id names: 32 hexadecimal digits, or a UUID. `None` if it is an id of another kind.
pub fn trace_id_of(text: &str) -> Option<String> {
    let digits = text.replace('-', "").to_ascii_lowercase();
    hex(&digits, 32).filter(|trace| *trace != 0).map(|_| digits)
}

/// The number that exactly so many lower-case hexadecimal digits write.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_hex = text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_hex.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<TraceContext> {
        let mut headers = HeaderMap::new();
        headers.insert(TraceContext::HEADER, text.parse().expect("a header"));
        TraceContext::of(&headers)
    }

    /// A valid header is read, also of a later version; anything else begins a new trace.
    #[test]
    fn a_traceparent_is_read_or_ignored() {
        let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "00f067aa0ba902b7");
        let read = of(&format!("00-{trace}-{span}-01")).expect("valid");
        assert_eq!((read.trace_id().as_str(), read.parent_id().as_str(), read.is_sampled()), (trace, span, true));
        assert!(!of(&format!("00-{trace}-{span}-00")).expect("valid").is_sampled());
        assert!(of(&format!("01-{trace}-{span}-03-more")).is_some());
        for wrong in [
            String::new(),
            "x".into(),
            format!("00-{trace}-{span}"),
            format!("00-{trace}-{span}-01-more"),
            format!("ff-{trace}-{span}-01"),
            format!("00-{}-{span}-01", "0".repeat(32)),
            format!("00-{trace}-{}-01", "0".repeat(16)),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            format!("00-{}-{span}-01", &trace[1..]),
            format!("00-{trace}-{span}-+1"),
        ] {
            assert_eq!(of(&wrong), None, "{wrong}");
        }
        let uuid = "0AF76519-16cd-43dd-8448-eb211c80319c";
        assert_eq!((trace_id_of(uuid).as_deref(), trace_id_of(trace).as_deref()), (Some(trace), Some(trace)));
        assert_eq!((trace_id_of("order-17"), trace_id_of(&"0".repeat(32))), (None, None));
    }
}
