//! Finished turns: everything that a turn changed, as it is stored.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

use duroxide::providers::{ExecutionMetadata, ProviderError, ScheduledActivityIdentifier, WorkItem};
use duroxide::{Event, EventKind};
use reveille_wake::WakeUp;

use super::activities::{ActivityColumns, ScheduledActivity};
use super::message::{Message, millis};
use super::repeated;
use crate::claim::{LeasedItem, packed_version};
use crate::observe;
use crate::provider::Channels;
use crate::queries::Bound;
use crate::read::{ExecutionKey, write_events};
use crate::text::{escape, unescape};
use crate::token::TurnToken;

/// What a turn changed, as the runtime passes it to the ack.
pub(crate) struct TurnChanges {
    pub(crate) execution: u64,
    pub(crate) events: Vec<Event>,
    pub(crate) activities: Vec<WorkItem>,
    pub(crate) messages: Vec<WorkItem>,
    pub(crate) metadata: ExecutionMetadata,
    pub(crate) cancelled: Vec<ScheduledActivityIdentifier>,
}

/// A turn to ack.
#[derive(Debug)]
pub(crate) struct FinishedTurn {
    pub(crate) token: TurnToken,
    pub(crate) execution: i64,
    /// `None`: the turn appends no events.
    pub(crate) events: Option<EventBatch>,
    /// The same events, for the history cache.
    pub(crate) new_history: Vec<Event>,
    pub(crate) name: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) parent: Option<String>,
    pub(crate) pinned_version: Option<i64>,
    pub(crate) status: Option<String>,
    pub(crate) output: Option<String>,
    /// `Some`: it was set, or removed.
    pub(crate) custom_status: Option<Option<String>>,
    pub(crate) activities: Vec<ScheduledActivity>,
    pub(crate) cancellations: Vec<Cancellation>,
    pub(crate) messages: Vec<Message>,
    pub(crate) keys: KeyChanges,
    /// It has been sent before.
    pub(crate) sent: AtomicBool,
}

/// The events of a turn: a row of the history.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EventBatch {
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) count: i32,
    pub(crate) json: String,
}

/// An activity that a turn cancels.
#[derive(Debug)]
pub(crate) struct Cancellation {
    /// Escaped.
    pub(crate) instance: String,
    pub(crate) execution: i64,
    pub(crate) activity: i64,
}

/// The key changes of a turn, merged.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyChanges {
    /// All keys from before the turn were removed.
    pub(crate) cleared: bool,
    /// Then these keys were set, with their times, or removed.
    pub(crate) changed: BTreeMap<String, Option<(String, i64)>>,
}

impl KeyChanges {
    pub(crate) fn of(events: &[Event]) -> KeyChanges {
        let mut keys = KeyChanges::default();
        for event in events {
            match &event.kind {
                EventKind::KeyValueSet { key, value, last_updated_at_ms } => {
                    let set = (escape(value).into_owned(), *last_updated_at_ms as i64);
                    keys.changed.insert(escape(key).into_owned(), Some(set));
                }
                EventKind::KeyValueCleared { key } => {
                    keys.changed.insert(escape(key).into_owned(), None);
                }
                EventKind::KeyValuesCleared => {
                    keys.cleared = true;
                    keys.changed.clear();
                }
                _ => {}
            }
        }
        keys
    }
}

impl Cancellation {
    /// Whether it cancels this item.
    pub(super) fn is(&self, item: &LeasedItem) -> bool {
        let key = (&self.instance, self.execution, self.activity);
        matches!(item, LeasedItem::Activity { instance, execution, activity } if (instance, *execution, *activity) == key)
    }
}

impl FinishedTurn {
    /// # Errors
    /// If something cannot be stored.
    pub(super) fn new(
        operation: &'static str,
        token: TurnToken,
        changes: TurnChanges,
    ) -> Result<FinishedTurn, ProviderError> {
        let text = |text: &Option<String>| text.as_deref().map(|text| escape(text).into_owned());
        let metadata = &changes.metadata;
        let cancelled: HashSet<(&str, u64, u64)> = changes
            .cancelled
            .iter()
            .map(|activity| (activity.instance.as_str(), activity.execution_id, activity.activity_id))
            .collect();
        let is_cancelled = |item: &WorkItem| match item {
            WorkItem::ActivityExecute { instance, execution_id, id, .. } => {
                cancelled.contains(&(instance.as_str(), *execution_id, *id))
            }
            _ => false,
        };
        let custom_status = changes.events.iter().rev().find_map(|event| match &event.kind {
            EventKind::CustomStatusUpdated { status } => Some(text(status)),
            _ => None,
        });
        let activities = changes.activities.iter().filter(|item| !is_cancelled(item));
        let instance = unescape(token.instance.clone());
        let execution = ExecutionKey { instance: &instance, execution: changes.execution };
        Ok(FinishedTurn {
            token,
            execution: changes.execution as i64,
            events: event_batch(operation, &execution, &changes.events)?,
            name: text(&metadata.orchestration_name),
            version: text(&metadata.orchestration_version),
            parent: text(&metadata.parent_instance_id),
            pinned_version: metadata.pinned_duroxide_version.as_ref().map(packed_version),
            status: text(&metadata.status),
            output: text(&metadata.output),
            custom_status,
            activities: activities.map(|item| ScheduledActivity::new(operation, item)).collect::<Result<_, _>>()?,
            cancellations: changes
                .cancelled
                .iter()
                .map(|cancelled| Cancellation {
                    instance: escape(&cancelled.instance).into_owned(),
                    execution: cancelled.execution_id as i64,
                    activity: cancelled.activity_id as i64,
                })
                .collect(),
            messages: changes
                .messages
                .iter()
                .map(|item| Message::new(operation, item, None))
                .collect::<Result<_, _>>()?,
            keys: KeyChanges::of(&changes.events),
            new_history: changes.events,
            sent: false.into(),
        })
    }

    /// Whether its ack may be pipelined: its events must follow those that the claim returned, so that it is not rejected
    /// as a duplicate. A turn that ends its execution waits for the commit, so that the recorded end is not later than the
    /// answer. So does one that cancels activities, so that the next fetch does not find them.
    pub(super) fn may_be_pipelined(&self, item: &LeasedItem) -> bool {
        let LeasedItem::Turn { execution, last } = *item else { return false };
        let follows = self.events.as_ref().is_none_or(|events| events.first > last);
        execution == self.execution && follows && self.status.is_none() && self.cancellations.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        let events = self.events.as_ref().map_or(0, |events| events.json.len());
        let activities: usize = self.activities.iter().map(ScheduledActivity::bytes).sum();
        let messages: usize = self.messages.iter().map(Message::bytes).sum();
        let output = self.output.as_ref().map_or(0, String::len);
        self.token.instance.len() + events + activities + messages + output
    }

    /// What the turn makes visible if it is applied.
    pub(super) fn wake_ups(&self, channels: &Channels) -> Vec<WakeUp> {
        let orchestrations = &channels.orchestrations;
        let mut wake_ups: Vec<WakeUp> =
            self.messages.iter().map(|message| orchestrations.wake_up().after(message.due.delay())).collect();
        if !self.activities.is_empty() {
            wake_ups.push(channels.workers.wake_up());
        }
        if self.status.is_some() || self.custom_status.is_some() {
            wake_ups.push(channels.instances.wake_up_keys([self.token.instance.as_str()]));
        }
        wake_ups
    }
}

/// Events as one row of the history; `None` for no events.
///
/// # Errors
/// If an id is missing or the ids are not in order: the runtime sets them.
pub(crate) fn event_batch(
    operation: &'static str,
    execution: &ExecutionKey<'_>,
    events: &[Event],
) -> Result<Option<EventBatch>, ProviderError> {
    let (Some(first), Some(last)) = (events.first(), events.last()) else { return Ok(None) };
    if first.event_id == 0 {
        return Err(ProviderError::permanent(operation, "invalid event id: must not be 0"));
    }
    if !events.is_sorted_by(|one, next| one.event_id < next.event_id) {
        return Err(ProviderError::permanent(operation, "invalid event ids: must be strictly increasing"));
    }
    let json = write_events(events, execution)
        .map_err(|error| ProviderError::permanent(operation, format!("an event cannot be encoded as JSON: {error}")))?;
    Ok(Some(EventBatch { first: first.event_id as i64, last: last.event_id as i64, count: events.len() as i32, json }))
}

/// Binds turns as the columns that the statement `commit` takes, in its order. The parts of a turn carry the position of
/// the turn, from 1.
pub(super) fn bind<'q>(query: Bound<'q>, turns: &[&'q FinishedTurn]) -> Bound<'q> {
    let sent_again = turns.iter().filter(|turn| turn.sent.swap(true, Ordering::Relaxed)).count();
    observe::retried(sent_again);
    let query = bind_turns(query, turns);
    let query = bind_activities(query, turns);
    let query = bind_cancellations(query, turns);
    let query = bind_messages(query, turns);
    bind_key_changes(query, turns)
}

/// The parts of all turns, each with the position of its turn and the turn.
fn parts<'q, T, I>(turns: &[&'q FinishedTurn], of: impl Fn(&'q FinishedTurn) -> I) -> Vec<(i32, &'q FinishedTurn, T)>
where
    I: IntoIterator<Item = T>,
{
    let numbered = (1i32..).zip(turns.iter().copied());
    numbered.flat_map(|(position, turn)| of(turn).into_iter().map(move |part| (position, turn, part))).collect()
}

fn column<P, T>(parts: &[P], of: impl Fn(&P) -> T) -> Vec<T> {
    parts.iter().map(of).collect()
}

fn bind_turns<'q>(query: Bound<'q>, turns: &[&'q FinishedTurn]) -> Bound<'q> {
    let events = column(turns, |turn| turn.events.as_ref());
    query
        .bind(column(turns, |turn| turn.token.instance.as_str()))
        .bind(column(turns, |turn| turn.token.fence))
        .bind(repeated(turns.iter().map(|turn| turn.token.fence)))
        .bind(column(turns, |turn| turn.execution))
        .bind(column(&events, |events| events.map(|events| events.first)))
        .bind(column(&events, |events| events.map(|events| events.last)))
        .bind(column(&events, |events| events.map(|events| events.count)))
        .bind(column(&events, |events| events.map(|events| events.json.as_str())))
        .bind(column(turns, |turn| turn.name.as_deref()))
        .bind(column(turns, |turn| turn.version.as_deref()))
        .bind(column(turns, |turn| turn.parent.as_deref()))
        .bind(column(turns, |turn| turn.pinned_version))
        .bind(column(turns, |turn| turn.status.as_deref()))
        .bind(column(turns, |turn| turn.output.as_deref()))
        .bind(column(turns, |turn| turn.custom_status.is_some()))
        .bind(column(turns, |turn| turn.custom_status.as_ref().and_then(Option::as_deref)))
        .bind(column(turns, |turn| turn.keys.cleared))
}

fn bind_activities<'q>(query: Bound<'q>, turns: &[&'q FinishedTurn]) -> Bound<'q> {
    let activities = parts(turns, |turn| &turn.activities);
    ActivityColumns::of(activities.iter().map(|(.., activity)| *activity))
        .bind(query.bind(column(&activities, |(position, ..)| *position)))
}

fn bind_cancellations<'q>(query: Bound<'q>, turns: &[&'q FinishedTurn]) -> Bound<'q> {
    let cancellations = parts(turns, |turn| &turn.cancellations);
    query
        .bind(column(&cancellations, |(position, ..)| *position))
        .bind(column(&cancellations, |(.., cancelled)| cancelled.instance.as_str()))
        .bind(column(&cancellations, |(.., cancelled)| cancelled.execution))
        .bind(column(&cancellations, |(.., cancelled)| cancelled.activity))
}

fn bind_messages<'q>(query: Bound<'q>, turns: &[&'q FinishedTurn]) -> Bound<'q> {
    let messages = parts(turns, |turn| &turn.messages);
    query
        .bind(column(&messages, |(position, ..)| *position))
        .bind(column(&messages, |(.., message)| message.instance.as_str()))
        .bind(column(&messages, |(.., message)| millis(message.due.delay())))
        .bind(column(&messages, |(.., message)| message.item.as_str()))
}

fn bind_key_changes<'q>(query: Bound<'q>, turns: &[&'q FinishedTurn]) -> Bound<'q> {
    let changes = parts(turns, |turn| &turn.keys.changed);
    query
        .bind(column(&changes, |(position, ..)| *position))
        .bind(column(&changes, |(_, turn, _)| turn.token.instance.as_str()))
        .bind(column(&changes, |(.., (key, _))| key.as_str()))
        .bind(column(&changes, |(.., (_, set))| set.as_ref().map(|(value, _)| value.as_str())))
        .bind(column(&changes, |(.., (_, set))| set.as_ref().map(|(_, at)| *at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind) -> Event {
        Event::with_event_id(1, "i", 1, None, kind)
    }

    /// The last change of a key counts; changes before a clear of all keys do not.
    #[test]
    fn key_changes_of_a_turn_are_merged() {
        let set = |key: &str, value: &str| {
            event(EventKind::KeyValueSet { key: key.into(), value: value.into(), last_updated_at_ms: 5 })
        };
        let events = [
            set("a", "1"),
            event(EventKind::KeyValuesCleared),
            set("b", "2"),
            set("b", "3"),
            set("c", "\0"),
            event(EventKind::KeyValueCleared { key: "c".into() }),
        ];
        let keys = KeyChanges::of(&events);
        let changed = BTreeMap::from([("b".to_owned(), Some(("3".to_owned(), 5))), ("c".to_owned(), None)]);
        assert_eq!(keys, KeyChanges { cleared: true, changed });
        assert_eq!(KeyChanges::of(&[]), KeyChanges::default());
    }

    fn with_id(id: u64) -> Event {
        Event::with_event_id(id, "i", 1, None, EventKind::KeyValuesCleared)
    }

    /// Event ids must be set and strictly increasing.
    #[test]
    fn event_ids_must_be_in_order() {
        let of = ExecutionKey { instance: "i", execution: 1 };
        assert_eq!(event_batch("op", &of, &[]).expect("none"), None);
        let batch = event_batch("op", &of, &[with_id(2), with_id(5)]).expect("in order").expect("some");
        assert_eq!((batch.first, batch.last, batch.count), (2, 5, 2));
        assert_eq!(crate::read::read_events(&batch.json, &of).expect("events").len(), 2);
        for wrong in [[0, 1], [3, 3], [4, 2]] {
            let events = wrong.map(with_id);
            assert!(!event_batch("op", &of, &events).expect_err("out of order").is_retryable());
        }
    }
}
