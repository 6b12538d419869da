//! The key-value pairs of an instance, in two layers.
//!
//! What the current execution writes is pending: clients read it at once, but a turn's snapshot must not contain it,
//! because the turn replays the events that wrote it and would see its own future. When the execution ends, pending
//! becomes committed.

use std::collections::{BTreeMap, HashMap};

use duroxide::providers::KvEntry;
use duroxide::{Event, EventKind};

/// Committed values of ended executions below the pending changes of the current one.
#[derive(Debug, Default)]
pub(crate) struct Kv {
    committed: HashMap<String, KvEntry>,
    /// `None` hides the committed value: the key was cleared.
    pending: BTreeMap<String, Option<KvEntry>>,
}

impl Kv {
    /// Takes over what an event of the current execution does to the pairs, if anything.
    pub(crate) fn apply(&mut self, event: &Event) {
        match &event.kind {
            EventKind::KeyValueSet { key, value, last_updated_at_ms } => {
                let entry = KvEntry { value: value.clone(), last_updated_at_ms: *last_updated_at_ms };
                self.pending.insert(key.clone(), Some(entry));
            }
            EventKind::KeyValueCleared { key } => {
                self.pending.insert(key.clone(), None);
            }
            EventKind::KeyValuesCleared => {
                self.pending.values_mut().for_each(|entry| *entry = None);
                self.pending.extend(self.committed.keys().map(|key| (key.clone(), None)));
            }
            _ => {}
        }
    }

    /// The execution has ended: its changes become what the next one starts with.
    pub(crate) fn commit(&mut self) {
        for (key, entry) in std::mem::take(&mut self.pending) {
            match entry {
                Some(entry) => self.committed.insert(key, entry),
                None => self.committed.remove(&key),
            };
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.committed.is_empty() && self.pending.is_empty()
    }

    /// What a turn starts with.
    pub(crate) fn snapshot(&self) -> HashMap<String, KvEntry> {
        self.committed.clone()
    }

    /// What a client sees under `key`.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        let entry = match self.pending.get(key) {
            Some(pending) => pending.as_ref(),
            None => self.committed.get(key),
        };
        entry.map(|entry| entry.value.as_str())
    }

    /// Everything a client sees.
    pub(crate) fn all(&self) -> HashMap<String, String> {
        let keys = self.committed.keys().chain(self.pending.keys());
        keys.filter_map(|key| Some((key.clone(), self.get(key)?.to_owned()))).collect()
    }
}
