//! Events as they are stored: those of a turn as one JSON array, without what the row contains already.
//!
//! Every event repeats its instance and execution, which are the key of its row: a third of the text. They are removed
//! where they are the same, and inserted when the events are read. A text that has them, imported from another provider,
//! is read as well.

use duroxide::{Event, EventKind};
use serde::{Deserialize, Serialize};

/// The execution that events belong to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExecutionKey<'a> {
    pub(crate) instance: &'a str,
    pub(crate) execution: u64,
}

#[derive(Serialize)]
struct StoredEvent<'a> {
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
struct ReadEvent {
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
/// If an event cannot be encoded, which does not happen for the events of duroxide.
pub(crate) fn write_events(events: &[Event], of: &ExecutionKey<'_>) -> serde_json::Result<String> {
    let written: Vec<StoredEvent<'_>> = events
        .iter()
        .map(|event| StoredEvent {
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
/// If the text is not an array of events that this version knows.
pub(crate) fn read_events(text: &str, of: &ExecutionKey<'_>) -> serde_json::Result<Vec<Event>> {
    let read: Vec<ReadEvent> = serde_json::from_str(text)?;
    let events = read.into_iter().map(|read| Event {
        event_id: read.event_id,
        source_event_id: read.source_event_id,
        instance_id: read.instance_id.unwrap_or_else(|| of.instance.to_owned()),
        execution_id: read.execution_id.unwrap_or(of.execution),
        timestamp_ms: read.timestamp_ms,
        duroxide_version: read.duroxide_version,
        kind: read.kind,
    });
    Ok(events.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF: ExecutionKey<'_> = ExecutionKey { instance: "order-42", execution: 3 };

    /// Events are read back unchanged, also those of another execution, from this format and from duroxide's own.
    #[test]
    fn events_are_read_back_unchanged() {
        let kind = || EventKind::ActivityCompleted { result: "\u{0}\"x\"".into() };
        let events = vec![
            Event::with_event_id(1, "order-42", 3, Some(7), kind()),
            Event::with_event_id(2, "another", 4, None, EventKind::KeyValuesCleared),
        ];
        let text = write_events(&events, &OF).expect("write");
        assert_eq!(read_events(&text, &OF).expect("read"), events);
        assert_eq!(text.matches("order-42").count(), 0, "{text}");
        let own = serde_json::to_string(&events).expect("duroxide's own form");
        assert_eq!(read_events(&own, &OF).expect("read"), events);
    }

    /// An invalid event is an error, not a shorter history.
    #[test]
    fn invalid_events_are_rejected() {
        for text in [
            "",
            "{}",
            r#"[{"event_id":1}]"#,
            r#"[{"event_id":1,"timestamp_ms":1,"duroxide_version":"9","type":"Unheard"}]"#,
        ] {
            assert!(read_events(text, &OF).is_err(), "{text}");
        }
    }
}
