//! The events of one execution: appended, never changed.

use std::collections::{BTreeMap, BTreeSet};

use duroxide::{Event, EventKind};

/// Events by id. An id that comes twice is a second opinion about the past, and refused.
#[derive(Debug, Default)]
pub(crate) struct History(BTreeMap<u64, Entry>);

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "the small one is rare: a box would cost every event an allocation")]
enum Entry {
    Event(Event),
    /// Text that replaced it by other means; decoded like any stored text, so it may fail.
    Text(String),
}

impl Entry {
    fn read(&self, id: u64) -> Result<Event, String> {
        match self {
            Self::Event(event) => Ok(event.clone()),
            Self::Text(text) => serde_json::from_str(text).map_err(|error| format!("cannot read event {id}: {error}")),
        }
    }
}

impl History {
    /// Whether all of `events` can be appended; the message says which cannot, and why.
    pub(crate) fn admits(&self, events: &[Event]) -> Result<(), String> {
        let mut ids = BTreeSet::new();
        for id in events.iter().map(Event::event_id) {
            if id == 0 {
                return Err("an event has no id: the runtime must set it".to_owned());
            }
            if self.0.contains_key(&id) || !ids.insert(id) {
                return Err(format!("event {id} is already in this execution's history"));
            }
        }
        Ok(())
    }

    /// Appends what [`admits`](Self::admits) has let through.
    pub(crate) fn append(&mut self, events: Vec<Event>) {
        self.0.extend(events.into_iter().map(|event| (event.event_id(), Entry::Event(event))));
    }

    /// All events in order of their ids; the message names the first that cannot be read.
    pub(crate) fn read(&self) -> Result<Vec<Event>, String> {
        self.0.iter().map(|(id, entry)| entry.read(*id)).collect()
    }

    /// One event; the message says why it cannot be read.
    pub(crate) fn get(&self, id: u64) -> Result<Option<Event>, String> {
        self.0.get(&id).map(|entry| entry.read(id)).transpose()
    }

    /// Name and version in the event that started the execution, if it is there and can be read.
    pub(crate) fn started(&self) -> Option<(&str, &str)> {
        self.0.values().find_map(|entry| match entry {
            Entry::Event(Event { kind: EventKind::OrchestrationStarted { name, version, .. }, .. }) => {
                Some((name.as_str(), version.as_str()))
            }
            _ => None,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The size of all events as they would be stored.
    pub(crate) fn bytes(&self) -> u64 {
        let bytes = |entry: &Entry| match entry {
            Entry::Event(event) => serde_json::to_string(event).map_or(0, |text| text.len()),
            Entry::Text(text) => text.len(),
        };
        self.0.values().map(bytes).sum::<usize>() as u64
    }

    /// Replaces every event by `text`.
    pub(crate) fn overwrite(&mut self, text: &str) {
        self.0.values_mut().for_each(|entry| *entry = Entry::Text(text.to_owned()));
    }
}
