//! Events as they are stored: a turn's as one JSON array, without what the row says already.
//!
//! Every event repeats its instance and execution, which are the key of its row: a third of the text. They are left out where they are the same, and put
//! back when it is read; a text that has them (carried over from another provider) is read as well.

use duroxide::{Event, EventKind};
use serde::{Deserialize, Serialize};

/// Whose events they are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Execution<'a> {
    pub(crate) instance: &'a str,
    pub(crate) execution: u64,
}

#[derive(Serialize)]
struct Written<'a> {
    event_id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_event_id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution_id: Option<u64>,
    timestamp_ms: u64,
    duroxide_version: &'a str,
    #[serde(flatten)]
    kind: &'a EventKind,
}

#[derive(Deserialize)]
struct Read {
    event_id: u64,
    source_event_id: Option<u64>,
    instance_id: Option<String>,
    execution_id: Option<u64>,
    timestamp_ms: u64,
    duroxide_version: String,
    #[serde(flatten)]
    kind: EventKind,
}

/// # Errors
/// If an event cannot be written as JSON, which none of duroxide's cannot.
pub(crate) fn write(events: &[Event], of: &Execution<'_>) -> serde_json::Result<String> {
    let written: Vec<Written<'_>> = events
        .iter()
        .map(|event| Written {
            event_id: event.event_id,
            source_event_id: event.source_event_id,
            instance_id: Some(event.instance_id.as_str()).filter(|instance| *instance != of.instance),
            execution_id: Some(event.execution_id).filter(|execution| *execution != of.execution),
            timestamp_ms: event.timestamp_ms,
            duroxide_version: &event.duroxide_version,
            kind: &event.kind,
        })
        .collect();
    serde_json::to_string(&written)
}

/// # Errors
/// If the text is no array of events this version knows.
pub(crate) fn read(text: &str, of: &Execution<'_>) -> serde_json::Result<Vec<Event>> {
    let read: Vec<Read> = serde_json::from_str(text)?;
    let whole = read.into_iter().map(|read| Event {
        event_id: read.event_id,
        source_event_id: read.source_event_id,
        instance_id: read.instance_id.unwrap_or_else(|| of.instance.to_owned()),
        execution_id: read.execution_id.unwrap_or(of.execution),
        timestamp_ms: read.timestamp_ms,
        duroxide_version: read.duroxide_version,
        kind: read.kind,
    });
    Ok(whole.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF: Execution<'_> = Execution { instance: "order-42", execution: 3 };

    /// What is written is read back the same, whether an event belongs to the row or, by mistake, does not; and so is duroxide's own form.
    #[test]
    fn events_survive() {
        let kind = || EventKind::ActivityCompleted { result: "\u{0}\"x\"".into() };
        let events = vec![
            Event::with_event_id(1, "order-42", 3, Some(7), kind()),
            Event::with_event_id(2, "another", 4, None, EventKind::KeyValuesCleared),
        ];
        let text = write(&events, &OF).expect("write");
        assert_eq!(read(&text, &OF).expect("read"), events);
        assert_eq!(text.matches("order-42").count(), 0, "{text}");
        let own = serde_json::to_string(&events).expect("duroxide's own form");
        assert_eq!(read(&own, &OF).expect("read"), events);
    }

    /// What is no event is an error, not fewer events.
    #[test]
    fn what_is_no_event_is_refused() {
        for text in [
            "",
            "{}",
            r#"[{"event_id":1}]"#,
            r#"[{"event_id":1,"timestamp_ms":1,"duroxide_version":"9","type":"Unheard"}]"#,
        ] {
            assert!(read(text, &OF).is_err(), "{text}");
        }
    }
}
