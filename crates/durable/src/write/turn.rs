//! Turns that have been taken: everything they changed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use duroxide::{Event, EventKind};
use wake::WakeUp;

use super::repeated;
use super::send_work::WorkColumns;
use crate::message::{Message, Work, millis};
use crate::observe;
use crate::provider::Channels;
use crate::queries::Bound;
use crate::text::stored;
use crate::token::TurnToken;

/// A turn that has ended, as it is stored.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) token: TurnToken,
    pub(crate) execution: i64,
    /// First and last event, how many, and the JSON of all. `None`: there are none.
    pub(crate) events: Option<(i64, i64, i32, String)>,
    pub(crate) name: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) parent: Option<String>,
    pub(crate) pinned: Option<i64>,
    pub(crate) status: Option<String>,
    pub(crate) output: Option<String>,
    /// `Some`: it was set, or removed.
    pub(crate) custom_status: Option<Option<String>>,
    pub(crate) work: Vec<Work>,
    /// Instance, execution and activity.
    pub(crate) cancelled: Vec<(String, i64, i64)>,
    pub(crate) messages: Vec<Message>,
    pub(crate) keys: KeyChanges,
    /// It has been sent before.
    pub(crate) sent: AtomicBool,
}

/// What a turn did to an instance's keys, as one step.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyChanges {
    /// All keys of before were removed.
    pub(crate) cleared: bool,
    /// Then these were set, with their times, or removed.
    pub(crate) changed: BTreeMap<String, Option<(String, i64)>>,
}

impl KeyChanges {
    pub(crate) fn of(events: &[Event]) -> KeyChanges {
        let mut keys = KeyChanges::default();
        for event in events {
            match &event.kind {
                EventKind::KeyValueSet { key, value, last_updated_at_ms } => {
                    let set = (stored(value).into_owned(), *last_updated_at_ms as i64);
                    keys.changed.insert(stored(key).into_owned(), Some(set));
                }
                EventKind::KeyValueCleared { key } => {
                    keys.changed.insert(stored(key).into_owned(), None);
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

/// What became of something finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acked {
    /// It happened.
    Done {
        /// The instance's generation, if it was a turn that began an execution.
        generation: Option<i64>,
        /// Messages that waited for the start of the instance are due.
        more: bool,
    },
    /// The lease is somebody else's, or ended by an ack, or none.
    Gone,
    /// The lease has ended by itself.
    Expired,
    /// An event with such an id exists.
    Duplicate,
}

impl Ended {
    pub(super) fn bytes(&self) -> usize {
        let events = self.events.as_ref().map_or(0, |(_, _, _, json)| json.len());
        let sent: usize = self.work.iter().map(Work::bytes).chain(self.messages.iter().map(Message::bytes)).sum();
        let kept = self.output.as_ref().map_or(0, String::len);
        self.token.instance.len() + events + sent + kept
    }

    /// `acked`: it has happened, or may have; `None`: it is about to.
    pub(super) fn wake_ups(&self, channels: &Channels, acked: Option<&Acked>) -> Vec<WakeUp> {
        if acked.is_some_and(|acked| !matches!(acked, Acked::Done { .. })) {
            return Vec::new();
        }
        let orchestrations = &channels.orchestrations;
        let mut wake_ups: Vec<WakeUp> =
            self.messages.iter().map(|message| orchestrations.wake_up().after(message.due.delay())).collect();
        if !self.work.is_empty() {
            wake_ups.push(channels.workers.wake_up());
        }
        if self.status.is_some() || self.custom_status.is_some() {
            wake_ups.push(channels.instances.wake_up_keys([self.token.instance.as_str()]));
        }
        wake_ups
    }
}

/// Binds turns as the arrays their part of the statement takes, in its order.
pub(super) fn bind<'q>(query: Bound<'q>, turns: &[&'q Ended]) -> Bound<'q> {
    let again = turns.iter().filter(|turn| turn.sent.swap(true, Ordering::Relaxed)).count();
    observe::retried(again);
    let numbered = || (1i32..).zip(turns.iter().copied());
    let fences = || turns.iter().map(|turn| turn.token.fence);
    let texts = |of: fn(&Ended) -> Option<&str>| turns.iter().map(|turn| of(turn)).collect::<Vec<_>>();
    let events = || turns.iter().map(|turn| turn.events.as_ref());
    let work: Vec<(i32, &Work)> = numbered().flat_map(|(turn, it)| it.work.iter().map(move |w| (turn, w))).collect();
    let columns = WorkColumns::of(work.iter().map(|(_, work)| *work));
    let cancelled: Vec<_> = numbered().flat_map(|(turn, it)| it.cancelled.iter().map(move |c| (turn, c))).collect();
    let messages: Vec<_> = numbered().flat_map(|(turn, it)| it.messages.iter().map(move |m| (turn, m))).collect();
    let cleared: Vec<i32> = numbered().filter(|(_, it)| it.keys.cleared).map(|(turn, _)| turn).collect();
    let keys: Vec<_> =
        numbered().flat_map(|(turn, it)| it.keys.changed.iter().map(move |(k, v)| (turn, k, v))).collect();
    query
        .bind(turns.iter().map(|turn| turn.token.instance.as_str()).collect::<Vec<_>>())
        .bind(fences().collect::<Vec<_>>())
        .bind(repeated(fences()))
        .bind(turns.iter().map(|turn| turn.execution).collect::<Vec<_>>())
        .bind(events().map(|events| events.map(|(first, ..)| *first)).collect::<Vec<_>>())
        .bind(events().map(|events| events.map(|(_, last, ..)| *last)).collect::<Vec<_>>())
        .bind(events().map(|events| events.map(|(_, _, count, _)| *count)).collect::<Vec<_>>())
        .bind(texts(|turn| turn.events.as_ref().map(|(_, _, _, json)| json.as_str())))
        .bind(texts(|turn| turn.name.as_deref()))
        .bind(texts(|turn| turn.version.as_deref()))
        .bind(texts(|turn| turn.parent.as_deref()))
        .bind(turns.iter().map(|turn| turn.pinned).collect::<Vec<_>>())
        .bind(texts(|turn| turn.status.as_deref()))
        .bind(texts(|turn| turn.output.as_deref()))
        .bind(turns.iter().map(|turn| turn.custom_status.is_some()).collect::<Vec<_>>())
        .bind(texts(|turn| turn.custom_status.as_ref().and_then(Option::as_deref)))
        .bind(work.iter().map(|(turn, _)| *turn).collect::<Vec<_>>())
        .bind(columns.instances)
        .bind(columns.executions)
        .bind(columns.activities)
        .bind(columns.lanes)
        .bind(columns.sessions)
        .bind(columns.items)
        .bind(cancelled.iter().map(|(turn, _)| *turn).collect::<Vec<_>>())
        .bind(cancelled.iter().map(|(_, (instance, ..))| instance.as_str()).collect::<Vec<_>>())
        .bind(cancelled.iter().map(|(_, (_, execution, _))| *execution).collect::<Vec<_>>())
        .bind(cancelled.iter().map(|(_, (.., activity))| *activity).collect::<Vec<_>>())
        .bind(messages.iter().map(|(turn, _)| *turn).collect::<Vec<_>>())
        .bind(messages.iter().map(|(_, message)| message.instance.as_str()).collect::<Vec<_>>())
        .bind(messages.iter().map(|(_, message)| millis(message.due.delay())).collect::<Vec<_>>())
        .bind(messages.iter().map(|(_, message)| message.item.as_str()).collect::<Vec<_>>())
        .bind(cleared)
        .bind(keys.iter().map(|(turn, ..)| *turn).collect::<Vec<_>>())
        .bind(keys.iter().map(|(_, key, _)| key.as_str()).collect::<Vec<_>>())
        .bind(keys.iter().map(|(.., set)| set.as_ref().map(|(value, _)| value.as_str())).collect::<Vec<_>>())
        .bind(keys.iter().map(|(.., set)| set.as_ref().map(|(_, at)| *at)).collect::<Vec<_>>())
}

impl Acked {
    pub(super) fn decode(text: &str) -> Option<Acked> {
        let (verdict, generation) = text.split_once(' ').unwrap_or((text, ""));
        Some(match verdict {
            "ok" | "more" => Acked::Done { generation: generation.parse().ok(), more: verdict == "more" },
            "expired" => Acked::Expired,
            "duplicate" => Acked::Duplicate,
            "gone" => Acked::Gone,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind) -> Event {
        Event::with_event_id(1, "i", 1, None, kind)
    }

    /// What happened to a key last counts, and what was there before everything was cleared does not.
    #[test]
    fn key_changes_are_one_step() {
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
}
