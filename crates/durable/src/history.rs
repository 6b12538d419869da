//! Remembered histories.
//!
//! Every turn needs the whole history of its execution, so loading it each time makes a chain of n steps cost n². A history only grows, so
//! what has been read stays true, and a turn or a reader needs only what came after. The danger is a history that was changed behind our
//! back: every change but an append gives the instance another *generation*, and what is remembered counts only under the generation the
//! database answers. Bounded by bytes; the execution that was used longest ago goes first.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use duroxide::Event;

use crate::stored::{self, Execution};

/// What an event costs beside its text: the struct, its strings' capacity, its place in a vector.
const EVENT_OVERHEAD: usize = 200;

/// Where an execution stands in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) execution: i64,
    pub(crate) generation: i64,
    /// The last event; zero if there is none.
    pub(crate) last: i64,
}

/// Events that need not be loaded again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Remembered {
    pub(crate) events: Arc<Vec<Event>>,
    /// The last of them; zero if there are none.
    pub(crate) last: i64,
    bytes: usize,
}

impl Remembered {
    /// Adds rows of further events, each the JSON of a turn's.
    ///
    /// # Errors
    /// Says after which event the text cannot be read, without the text.
    pub(crate) fn extend(mut self, of: &Execution<'_>, rows: &[String]) -> Result<Remembered, String> {
        if rows.is_empty() {
            return Ok(self);
        }
        let whole = Arc::make_mut(&mut self.events);
        for row in rows {
            let more: Vec<Event> = stored::read(row, of).map_err(|error| {
                format!("failed to deserialize history after event {}: {}", self.last, without_text(&error))
            })?;
            self.bytes += row.len() + more.len() * EVENT_OVERHEAD;
            self.last = more.last().map_or(self.last, |event| event.event_id as i64);
            whole.extend(more);
        }
        Ok(self)
    }
}

/// What is wrong with a JSON text: an unknown name is said, a value never.
fn without_text(error: &serde_json::Error) -> String {
    match error.classify() {
        serde_json::error::Category::Data => format!("not an event this version knows, at column {}", error.column()),
        _ => format!("not JSON, at column {}", error.column()),
    }
}

/// The histories of current executions.
#[derive(Debug)]
pub(crate) struct Histories {
    bytes_max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    known: HashMap<Arc<str>, Known>,
    /// By when they were last used.
    order: BTreeMap<u64, Arc<str>>,
    uses: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Known {
    head: Head,
    events: Arc<Vec<Event>>,
    bytes: usize,
    used: u64,
}

impl Known {
    fn remembered(&self) -> Remembered {
        Remembered { events: self.events.clone(), last: self.head.last, bytes: self.bytes }
    }
}

impl Histories {
    pub(crate) fn new(bytes_max: usize) -> Histories {
        Histories { bytes_max, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is remembered of an instance, whether it still counts or not.
    pub(crate) fn known(&self, instance: &str) -> Option<Head> {
        self.state().known.get(instance).map(|known| known.head)
    }

    /// What is remembered of an instance, and where it stood then.
    pub(crate) fn recall(&self, instance: &str) -> Option<(Head, Remembered)> {
        let mut state = self.state();
        let known = state.known.get(instance)?;
        let found = (known.head, known.remembered());
        state.touch(instance);
        Some(found)
    }

    /// What is remembered and counts under `head`. It is everything if it reaches `head.last`.
    pub(crate) fn get(&self, instance: &str, head: Head) -> Option<Remembered> {
        let mut state = self.state();
        let known = state.known.get(instance)?;
        let same = known.head.execution == head.execution && known.head.generation == head.generation;
        if !same || known.head.last > head.last {
            state.remove(instance);
            return None;
        }
        let found = known.remembered();
        state.touch(instance);
        Some(found)
    }

    /// Remembers a whole history, read at `head`.
    pub(crate) fn put(&self, instance: &str, head: Head, whole: &Remembered) {
        let mut state = self.state();
        state.remove(instance);
        if whole.last == head.last && whole.bytes <= self.bytes_max {
            state.insert(instance, Known { head, events: whole.events.clone(), bytes: whole.bytes, used: 0 });
            state.shrink(self.bytes_max);
        }
    }

    /// Events were appended by a turn of this process, which held the instance's lease; `head` is where that led to. The first events of an
    /// execution are its whole history; later ones extend what is remembered if that reached up to them. Otherwise it is forgotten.
    pub(crate) fn appended(&self, instance: &str, head: Head, events: &[Event], bytes: usize) {
        let Some(after) = events.first().map(|event| event.event_id as i64 - 1) else { return };
        let bytes = bytes + events.len() * EVENT_OVERHEAD;
        if after == 0 {
            let whole = Remembered { events: Arc::new(events.to_vec()), last: head.last, bytes };
            return self.put(instance, head, &whole);
        }
        let mut state = self.state();
        let reached = Head { last: after, ..head };
        match state.known.get_mut(instance).filter(|known| known.head == reached) {
            Some(known) => {
                Arc::make_mut(&mut known.events).extend_from_slice(events);
                known.head = head;
                known.bytes += bytes;
                state.bytes += bytes;
                state.touch(instance);
                state.shrink(self.bytes_max);
            }
            None => state.remove(instance),
        }
    }

    /// Forgets an instance.
    pub(crate) fn forget(&self, instance: &str) {
        self.state().remove(instance);
    }

    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.state().bytes
    }
}

impl State {
    fn insert(&mut self, instance: &str, mut known: Known) {
        let name: Arc<str> = instance.into();
        self.uses += 1;
        known.used = self.uses;
        self.order.insert(self.uses, name.clone());
        self.bytes += known.bytes;
        self.known.insert(name, known);
    }

    fn remove(&mut self, instance: &str) {
        if let Some(known) = self.known.remove(instance) {
            self.order.remove(&known.used);
            self.bytes -= known.bytes;
        }
    }

    fn touch(&mut self, instance: &str) {
        self.uses += 1;
        if let Some(known) = self.known.get_mut(instance)
            && let Some(name) = self.order.remove(&known.used)
        {
            known.used = self.uses;
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

    fn ids(found: Option<Remembered>) -> Option<Vec<u64>> {
        found.map(|found| found.events.iter().map(|event| event.event_id).collect())
    }

    /// A chain is remembered turn by turn, and counts only under the generation and execution it was read at.
    #[test]
    fn turns_extend_what_is_remembered() {
        let histories = Histories::new(1 << 20);
        histories.appended("i", head(2), &[event(1), event(2)], 100);
        histories.appended("i", head(3), &[event(3)], 50);
        assert_eq!(ids(histories.get("i", head(3))), Some(vec![1, 2, 3]));
        assert_eq!(ids(histories.get("i", head(9))), Some(vec![1, 2, 3]), "others appended more");
        assert_eq!(ids(histories.get("i", Head { generation: 8, ..head(3) })), None);
        assert_eq!(histories.known("i"), None, "what was changed behind our back is forgotten");
        assert_eq!(histories.bytes(), 0);
    }

    /// A gap, another execution, or a history that has become shorter: none of it may be taken for the whole.
    #[test]
    fn what_does_not_fit_is_forgotten() {
        let histories = Histories::new(1 << 20);
        histories.appended("i", head(1), &[event(1)], 10);
        histories.appended("i", head(5), &[event(5)], 10);
        assert_eq!(histories.known("i"), None);
        histories.appended("i", head(1), &[event(1)], 10);
        assert_eq!(ids(histories.get("i", Head { execution: 2, ..head(1) })), None);
        histories.appended("i", head(2), &[event(1), event(2)], 10);
        assert_eq!(ids(histories.get("i", head(1))), None);
        assert_eq!(histories.bytes(), 0);
    }

    /// Memory is bounded: the history that was used longest ago goes, and one larger than everything is not kept at all.
    #[test]
    fn bytes_are_bounded() {
        let histories = Histories::new(3 * (EVENT_OVERHEAD + 100));
        for name in ["a", "b", "c"] {
            histories.appended(name, head(1), &[event(1)], 100);
        }
        assert!(histories.get("a", head(1)).is_some());
        histories.appended("d", head(1), &[event(1)], 100);
        assert_eq!(histories.known("b"), None);
        assert!(histories.known("a").is_some() && histories.known("d").is_some());
        histories.appended("e", head(1), &[event(1)], 10_000);
        assert_eq!(histories.known("e"), None);
    }
}
