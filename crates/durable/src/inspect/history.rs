//! Histories as JSON: what happened when, and the events as they are stored.
//!
//! An event that ends something (an activity, a timer, a sub-orchestration) names the event that began it. Within a page
//! the two are joined here: the end has the name of what it ends, and how long that took.

use std::collections::{BTreeMap, HashMap};

use reveille_web::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use sqlx::Row;
use utoipa::ToSchema;

use super::Instances;
use super::keys::at_millis;
use crate::error::{Error, Result};
use crate::text::escape;

/// The most events of a page.
pub(crate) const EVENTS_MAX: u64 = 1_000;
/// The most bytes of a page, beyond which no further turn is read.
const BYTES_MAX: i64 = 4 << 20;

/// What a page contains of each event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = HistoryFormat)]
pub(crate) enum Format {
    /// No payloads.
    Compact,
    /// The stored events as well.
    Raw,
}

impl Format {
    /// The format of a name.
    pub(crate) fn named(name: &str) -> Option<Format> {
        match name {
            "compact" => Some(Format::Compact),
            "raw" => Some(Format::Raw),
            _ => None,
        }
    }
}

/// A part of the history of an execution.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = HistoryPage)]
pub(crate) struct HistoryPage {
    /// The execution; null if there are no events.
    pub(crate) execution: Option<u64>,
    /// Events, in order.
    pub(crate) events: Vec<HistoryEvent>,
    /// The `after` of the next page; null if this is the last.
    pub(crate) next: Option<u64>,
}

/// An event.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HistoryEvent)]
pub(crate) struct HistoryEvent {
    /// Its number in the execution, from 1.
    pub(crate) event_id: u64,
    /// The first event of the turn that wrote it.
    pub(crate) turn: u64,
    /// As duroxide names it: `ActivityScheduled`, for example.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// When it was written, by the clock of the runtime.
    #[schema(value_type = Option<String>, format = "date-time")]
    pub(crate) at: Option<Timestamp>,
    /// The event that it belongs to: of an `ActivityCompleted` the `ActivityScheduled`.
    pub(crate) source_event_id: Option<u64>,
    /// The activity, orchestration, event, queue or key; of an end the name of what it ends, if that is on this page.
    pub(crate) name: Option<String>,
    /// The instance of a sub-orchestration or a detached orchestration.
    pub(crate) instance: Option<String>,
    /// When a timer fires.
    #[schema(value_type = Option<String>, format = "date-time")]
    pub(crate) fire_at: Option<Timestamp>,
    /// Of an end: milliseconds since what it ends began, if that is on this page.
    pub(crate) duration_ms: Option<u64>,
    /// The event as it is stored, with its payload; with `format=raw` only.
    #[schema(value_type = Option<Object>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) event: Option<Box<RawValue>>,
}

/// The fields of a stored event that do not depend on its kind.
#[derive(Deserialize)]
struct Stored {
    event_id: u64,
    source_event_id: Option<u64>,
    #[serde(default)]
    timestamp_ms: u64,
    #[serde(rename = "type")]
    kind: String,
    // A value of another type is another meaning.
    name: Option<Value>,
    key: Option<Value>,
    instance: Option<Value>,
    fire_at_ms: Option<u64>,
}

/// What began, and when.
#[derive(Clone)]
struct Begun {
    name: Option<String>,
    instance: Option<String>,
    at_ms: u64,
}

impl Instances {
    /// Events after one, in order. `execution: None`: the current one.
    pub(crate) async fn history(
        &self,
        instance: &str,
        execution: Option<u64>,
        after: u64,
        limit: u64,
        format: Format,
    ) -> Result<HistoryPage> {
        let id = escape(instance).into_owned();
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX - 1).min(i64::MAX - 1);
        let rows = self.ask("read a history", || {
            sqlx::query(&self.inner.sql.history)
                .bind(id.clone())
                .bind(execution.map(signed))
                .bind(signed(after))
                // A turn has an event at least.
                .bind(limit as i64 + 1)
                .bind(BYTES_MAX)
        });
        let rows = rows.await?;
        let mut page = HistoryPage::default();
        let (mut begun, mut more, mut bytes) = (HashMap::new(), rows.len() as u64 > limit, 0);
        for row in &rows {
            let column = |name| row.try_get::<i64, _>(name).map_err(reveille_pg::Error::from);
            page.execution = Some(column("execution_id")? as u64);
            let turn = column("event_id")? as u64;
            let events: String = row.try_get("events").map_err(reveille_pg::Error::from)?;
            let unreadable = |_| Error::unreadable(instance, format!("the turn at event {turn} is not JSON"));
            bytes += events.len();
            let events: Vec<&RawValue> = serde_json::from_str(&events).map_err(unreadable)?;
            for event in events {
                let unreadable = |_| Error::unreadable(instance, format!("the turn at event {turn} has no events"));
                let stored: Stored = serde_json::from_str(event.get()).map_err(unreadable)?;
                if stored.event_id <= after {
                    continue;
                }
                if page.events.len() as u64 == limit {
                    more = true;
                    break;
                }
                page.events.push(shown(stored, instance, turn, &mut begun));
                if let (Format::Raw, Some(last)) = (format, page.events.last_mut()) {
                    last.event = Some(event.to_owned());
                }
            }
        }
        let last = page.events.last().map(|event| event.event_id);
        // The bytes of a page may end it before its rows do.
        let is_cut = !more && bytes >= BYTES_MAX as usize && self.is_after(&id, page.execution, last).await?;
        page.next = last.filter(|_| more || is_cut);
        Ok(page)
    }

    /// Whether an execution has events after one.
    async fn is_after(&self, id: &str, execution: Option<u64>, last: Option<u64>) -> Result<bool> {
        let (Some(execution), Some(last)) = (execution, last) else { return Ok(false) };
        let rows = self.ask("look for more events", || {
            sqlx::query(&self.inner.sql.history)
                .bind(id.to_owned())
                .bind(execution as i64)
                .bind(last as i64)
                .bind(1_i64)
                .bind(1_i64)
        });
        Ok(!rows.await?.is_empty())
    }
}

fn shown(stored: Stored, of: &str, turn: u64, begun: &mut HashMap<u64, Begun>) -> HistoryEvent {
    let string = |value: Option<Value>| value.and_then(|value| value.as_str().map(str::to_owned));
    let (mut name, child) = (string(stored.name).or_else(|| string(stored.key)), string(stored.instance));
    let mut instance = child.map(|child| full_id(of, child));
    let at_ms = stored.timestamp_ms;
    let source = stored.source_event_id.and_then(|id| begun.get(&id));
    let mut duration_ms = None;
    if let Some(source) = source {
        name = name.or_else(|| source.name.clone());
        instance = instance.or_else(|| source.instance.clone());
        duration_ms = is_an_end(&stored.kind).then(|| at_ms.saturating_sub(source.at_ms));
    }
    if source.is_none() {
        begun.insert(stored.event_id, Begun { name: name.clone(), instance: instance.clone(), at_ms });
    }
    HistoryEvent {
        event_id: stored.event_id,
        turn,
        at: at_millis(at_ms),
        source_event_id: stored.source_event_id,
        name,
        instance,
        fire_at: stored.fire_at_ms.and_then(at_millis),
        duration_ms,
        event: None,
        kind: stored.kind,
    }
}

/// The id of a child: duroxide stores one that it has made itself without the id of its parent.
fn full_id(parent: &str, child: String) -> String {
    if child.starts_with("sub::") { format!("{parent}::{child}") } else { child }
}

/// Whether an event is the end of its source.
fn is_an_end(kind: &str) -> bool {
    ["Completed", "Failed", "Fired"].iter().any(|end| kind.ends_with(end))
}

/// What a history has begun to wait for: subscriptions, which events of their name end in order, and sub-orchestrations.
#[derive(Debug, Default)]
pub(super) struct Open {
    events: Vec<(u64, String)>,
    arrived: HashMap<String, usize>,
    children: BTreeMap<u64, String>,
}

impl Open {
    /// Takes the next event of a history.
    pub(super) fn take(&mut self, event: &HistoryEvent) {
        let name = || event.name.clone().unwrap_or_default();
        match event.kind.as_str() {
            "ExternalSubscribed" | "ExternalSubscribedPersistent" => self.events.push((event.event_id, name())),
            "ExternalEvent" | "ExternalEventPersistent" => *self.arrived.entry(name()).or_default() += 1,
            "SubOrchestrationScheduled" => drop(self.children.insert(event.event_id, name())),
            "SubOrchestrationCompleted" | "SubOrchestrationFailed" => {
                event.source_event_id.and_then(|id| self.children.remove(&id));
            }
            kind if kind.starts_with("ExternalSubscribed") && kind.ends_with("Cancelled") => {
                self.events.retain(|(id, _)| Some(*id) != event.source_event_id);
            }
            _ => {}
        }
    }

    /// The names of the sub-orchestrations that have not ended.
    pub(super) fn children(&self) -> Vec<String> {
        self.children.values().cloned().collect()
    }

    /// The names of the events and queues that are waited for.
    pub(super) fn subscriptions(mut self) -> Vec<String> {
        let mut names = Vec::new();
        for (_, name) in self.events {
            match self.arrived.get_mut(&name).filter(|arrived| **arrived > 0) {
                Some(arrived) => *arrived -= 1,
                None => names.push(name),
            }
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(stored: &[&str]) -> Vec<HistoryEvent> {
        let mut begun = HashMap::new();
        let read = |text: &&str| shown(serde_json::from_str(text).expect("an event"), "order", 1, &mut begun);
        stored.iter().map(read).collect()
    }

    /// The end of an activity has its name and duration; an end whose beginning is on another page has neither.
    #[test]
    fn ends_are_joined_with_beginnings() {
        let events = page(&[
            r#"{"event_id":2,"timestamp_ms":1000,"type":"ActivityScheduled","name":"Charge","input":"x"}"#,
            r#"{"event_id":3,"timestamp_ms":1100,"type":"TimerCreated","fire_at_ms":5000}"#,
            r#"{"event_id":4,"source_event_id":2,"timestamp_ms":1250,"type":"ActivityCompleted","result":"y"}"#,
            r#"{"event_id":5,"source_event_id":1,"timestamp_ms":1300,"type":"ActivityFailed","details":{}}"#,
            r#"{"event_id":6,"timestamp_ms":0,"type":"KeyValueSet","key":"k","value":"v"}"#,
        ]);
        assert_eq!((events[2].name.as_deref(), events[2].duration_ms), (Some("Charge"), Some(250)));
        assert_eq!((events[3].name.as_deref(), events[3].duration_ms), (None, None));
        assert_eq!(events[1].fire_at.map(|at| at.to_string()).as_deref(), Some("1970-01-01T00:00:05.000000Z"));
        assert_eq!((events[4].name.as_deref(), events[4].at), (Some("k"), None));
    }

    /// A child that duroxide has named is named in full.
    #[test]
    fn ids_of_children_are_complete() {
        let events = page(&[
            r#"{"event_id":2,"type":"SubOrchestrationScheduled","name":"Ship","instance":"sub::2"}"#,
            r#"{"event_id":3,"type":"SubOrchestrationScheduled","name":"Ship","instance":"own"}"#,
        ]);
        let ids: Vec<_> = events.iter().map(|event| event.instance.as_deref()).collect();
        assert_eq!(ids, [Some("order::sub::2"), Some("own")]);
    }

    /// Subscriptions are open until an event of their name arrives or they are cancelled.
    #[test]
    fn opensubscriptions_are_found() {
        let mut open = Open::default();
        for event in page(&[
            r#"{"event_id":2,"type":"ExternalSubscribed","name":"paid"}"#,
            r#"{"event_id":3,"type":"ExternalSubscribed","name":"paid"}"#,
            r#"{"event_id":4,"type":"ExternalSubscribedPersistent","name":"mail"}"#,
            r#"{"event_id":5,"type":"ExternalSubscribed","name":"late"}"#,
            r#"{"event_id":6,"type":"ExternalEvent","name":"paid","data":""}"#,
            r#"{"event_id":7,"source_event_id":5,"type":"ExternalSubscribedCancelled","reason":""}"#,
            r#"{"event_id":8,"type":"SubOrchestrationScheduled","name":"Ship","instance":"s"}"#,
            r#"{"event_id":9,"type":"SubOrchestrationScheduled","name":"Mail","instance":"m"}"#,
            r#"{"event_id":10,"source_event_id":8,"type":"SubOrchestrationCompleted","result":""}"#,
        ]) {
            open.take(&event);
        }
        assert_eq!(open.children(), ["Mail"]);
        assert_eq!(open.subscriptions(), ["paid", "mail"]);
    }
}
