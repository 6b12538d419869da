//! The cache of histories.
//!
//! Every turn needs the whole history of its execution; loading it each time makes a chain of n steps cost n². A history
//! only grows, so what has been read stays true, and a turn or a reader needs only the events after it. The danger is a
//! history that is changed by other means: every change except an append gives the instance another *generation*, and a
//! cached history is valid only under the generation that the database returns. The cache is bounded by bytes and evicts
//! the least recently used execution.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use duroxide::Event;
use parking_lot::Mutex;

use super::event_json::{ExecutionKey, read_events};

/// The memory of an event beside its text: the struct and the capacity of its strings.
const EVENT_OVERHEAD: usize = 200;

/// The position of an execution in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) execution: i64,
    pub(crate) generation: i64,
    /// The last event; zero if there is none.
    pub(crate) last: i64,
}

/// The events of an execution up to a position.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventList {
    pub(crate) events: Arc<Vec<Event>>,
    /// The last of them; zero if there are none.
    pub(crate) last: i64,
    bytes: usize,
}

impl EventList {
    /// Adds rows of further events, each the JSON of one turn.
    ///
    /// # Errors
    /// Says after which event the text cannot be decoded, without the text.
    pub(crate) fn extend(mut self, of: &ExecutionKey<'_>, rows: &[String]) -> Result<EventList, String> {
        if rows.is_empty() {
            return Ok(self);
        }
        let events = Arc::make_mut(&mut self.events);
        for row in rows {
            let more: Vec<Event> = read_events(row, of).map_err(|error| {
                format!("failed to deserialize history after event {}: {}", self.last, without_text(&error))
            })?;
            self.bytes += row.len() + more.len() * EVENT_OVERHEAD;
            self.last = more.last().map_or(self.last, |event| event.event_id as i64);
            events.extend(more);
        }
        Ok(self)
    }
}

/// What is wrong with a JSON text, without any of its values.
fn without_text(error: &serde_json::Error) -> String {
    match error.classify() {
        serde_json::error::Category::Data => {
            format!("not an event that this version knows, at column {}", error.column())
        }
        _ => format!("not JSON, at column {}", error.column()),
    }
}

/// The cached histories of current executions.
#[derive(Debug)]
pub(crate) struct HistoryCache {
    bytes_max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    histories: HashMap<Arc<str>, CachedHistory>,
    /// By last use.
    order: BTreeMap<u64, Arc<str>>,
    uses: u64,
    bytes: usize,
}

#[derive(Debug)]
struct CachedHistory {
    head: Head,
    events: Arc<Vec<Event>>,
    bytes: usize,
    used: u64,
}

impl CachedHistory {
    fn event_list(&self) -> EventList {
        EventList { events: self.events.clone(), last: self.head.last, bytes: self.bytes }
    }
}

impl HistoryCache {
    pub(crate) fn new(bytes_max: usize) -> HistoryCache {
        HistoryCache { bytes_max, state: Mutex::default() }
    }

    /// The cached position of an instance, valid or not.
    pub(crate) fn head(&self, instance: &str) -> Option<Head> {
        self.state.lock().histories.get(instance).map(|cached| cached.head)
    }

    /// The cached events of an instance, valid or not, and their position.
    pub(crate) fn get_any(&self, instance: &str) -> Option<(Head, EventList)> {
        let mut state = self.state.lock();
        let cached = state.histories.get(instance)?;
        let found = (cached.head, cached.event_list());
        state.touch(instance);
        Some(found)
    }

    /// The cached events that are valid under `head`. They are complete if they reach `head.last`.
    pub(crate) fn get(&self, instance: &str, head: Head) -> Option<EventList> {
        let mut state = self.state.lock();
        let cached = state.histories.get(instance)?;
        let same = cached.head.execution == head.execution && cached.head.generation == head.generation;
        if !same || cached.head.last > head.last {
            state.remove(instance);
            return None;
        }
        let found = cached.event_list();
        state.touch(instance);
        Some(found)
    }

    /// Caches a complete history, read at `head`.
    pub(crate) fn put(&self, instance: &str, head: Head, history: &EventList) {
        let mut state = self.state.lock();
        state.remove(instance);
        if history.last == head.last && history.bytes <= self.bytes_max {
            state.insert(
                instance,
                CachedHistory { head, events: history.events.clone(), bytes: history.bytes, used: 0 },
            );
            state.shrink(self.bytes_max);
        }
    }

    /// Adds events that a turn of this process appended under its lease; `head` is the position after them. The first
    /// events of an execution are its complete history. Later ones extend the cached history if they follow it directly;
    /// otherwise it is removed.
    pub(crate) fn append(&self, instance: &str, head: Head, events: &[Event], bytes: usize) {
        let Some(after) = events.first().map(|event| event.event_id as i64 - 1) else { return };
        let bytes = bytes + events.len() * EVENT_OVERHEAD;
        if after == 0 {
            let history = EventList { events: Arc::new(events.to_vec()), last: head.last, bytes };
            return self.put(instance, head, &history);
        }
        let mut state = self.state.lock();
        let expected = Head { last: after, ..head };
        match state.histories.get_mut(instance).filter(|cached| cached.head == expected) {
            Some(cached) => {
                Arc::make_mut(&mut cached.events).extend_from_slice(events);
                cached.head = head;
                cached.bytes += bytes;
                state.bytes += bytes;
                state.touch(instance);
                state.shrink(self.bytes_max);
            }
            None => state.remove(instance),
        }
    }

    /// Removes an instance.
    pub(crate) fn forget(&self, instance: &str) {
        self.state.lock().remove(instance);
    }

    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.state.lock().bytes
    }
}

impl State {
    fn insert(&mut self, instance: &str, mut cached: CachedHistory) {
        let name: Arc<str> = instance.into();
        self.uses += 1;
        cached.used = self.uses;
        self.order.insert(self.uses, name.clone());
        self.bytes += cached.bytes;
        self.histories.insert(name, cached);
    }

    fn remove(&mut self, instance: &str) {
        if let Some(cached) = self.histories.remove(instance) {
            self.order.remove(&cached.used);
            self.bytes -= cached.bytes;
        }
    }

    fn touch(&mut self, instance: &str) {
        self.uses += 1;
        if let Some(cached) = self.histories.get_mut(instance)
            && let Some(name) = self.order.remove(&cached.used)
        {
            cached.used = self.uses;
            self.order.insert(self.uses, name);
        }
    }

    fn shrink(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max
            && let Some((_, oldest)) = self.order.first_key_value()
        {
            let oldest = oldest.clone();
            self.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duroxide::EventKind;

    fn event(id: u64) -> Event {
        Event::with_event_id(id, "i", 1, None, EventKind::KeyValuesCleared)
    }

    fn head(last: i64) -> Head {
        Head { execution: 1, generation: 7, last }
    }

    fn ids(found: Option<EventList>) -> Option<Vec<u64>> {
        found.map(|found| found.events.iter().map(|event| event.event_id).collect())
    }

    /// A history is cached turn by turn, and valid only under the generation and execution it was read at.
    #[test]
    fn turns_extend_the_cached_history() {
        let histories = HistoryCache::new(1 << 20);
        histories.append("i", head(2), &[event(1), event(2)], 100);
        histories.append("i", head(3), &[event(3)], 50);
        assert_eq!(ids(histories.get("i", head(3))), Some(vec![1, 2, 3]));
        assert_eq!(ids(histories.get("i", head(9))), Some(vec![1, 2, 3]), "others appended more");
        assert_eq!(ids(histories.get("i", Head { generation: 8, ..head(3) })), None);
        assert_eq!(histories.head("i"), None, "a history of another generation is removed");
        assert_eq!(histories.bytes(), 0);
    }

    /// A history with a gap, of another execution, or longer than the stored one is not used.
    #[test]
    fn a_history_that_does_not_fit_is_removed() {
        let histories = HistoryCache::new(1 << 20);
        histories.append("i", head(1), &[event(1)], 10);
        histories.append("i", head(5), &[event(5)], 10);
        assert_eq!(histories.head("i"), None);
        histories.append("i", head(1), &[event(1)], 10);
        assert_eq!(ids(histories.get("i", Head { execution: 2, ..head(1) })), None);
        histories.append("i", head(2), &[event(1), event(2)], 10);
        assert_eq!(ids(histories.get("i", head(1))), None);
        assert_eq!(histories.bytes(), 0);
    }

    /// Memory is bounded: the least recently used history is evicted, and one above the limit is not cached.
    #[test]
    fn bytes_are_bounded() {
        let histories = HistoryCache::new(3 * (EVENT_OVERHEAD + 100));
        for name in ["a", "b", "c"] {
            histories.append(name, head(1), &[event(1)], 100);
        }
        assert!(histories.get("a", head(1)).is_some());
        histories.append("d", head(1), &[event(1)], 100);
        assert_eq!(histories.head("b"), None);
        assert!(histories.head("a").is_some() && histories.head("d").is_some());
        histories.append("e", head(1), &[event(1)], 10_000);
        assert_eq!(histories.head("e"), None);
    }
}
