//! The messages of one instance, and the index that finds the instance whose turn it is.
//!
//! An instance is one unit of work: a claim takes all its visible messages under one lease. Its [`Entry`] in the index
//! follows from its messages and its lease alone and is computed again after every change. A lease *is* a due time: a
//! holder that never comes back needs no sweeper, because its instance is due at the end of its lease.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use duroxide::providers::{SemverRange, WorkItem};

use crate::clock::Time;
use crate::instance::Pin;

/// When a message becomes visible, then its rank by arrival.
pub(crate) type Due = (Time, u64);

#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) item: WorkItem,
    /// Claims so far.
    pub(crate) attempts: u32,
}

/// The right to take one turn of an instance.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) token: String,
    pub(crate) until: Time,
    /// The messages it was claimed with; what arrives later belongs to the next turn.
    batch: Vec<Due>,
}

/// The messages of one instance, and its lease.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    messages: BTreeMap<Due, Message>,
    /// Those among them that can begin an instance.
    starts: BTreeSet<Due>,
    /// `None` if it is not leased. An expired lease stays until the next claim or its own abandon.
    pub(crate) lease: Option<Lease>,
    /// Its entry in the index.
    entry: Option<Entry>,
}

impl Inbox {
    pub(crate) fn put(&mut self, due: Due, item: WorkItem) {
        self.insert(due, Message { item, attempts: 0 });
    }

    fn insert(&mut self, due: Due, message: Message) {
        if begins(&message.item) {
            self.starts.insert(due);
        }
        self.messages.insert(due, message);
    }

    fn remove(&mut self, due: Due) -> Option<Message> {
        self.starts.remove(&due);
        self.messages.remove(&due)
    }

    /// What can be begun now: the first visible start.
    pub(crate) fn start(&self, now: Time) -> Option<&WorkItem> {
        let first = self.starts.first().filter(|(visible, _)| *visible <= now)?;
        self.messages.get(first).map(|message| &message.item)
    }

    /// Takes a lease on everything visible: the messages in order of arrival, and the highest count of claims among
    /// them.
    pub(crate) fn claim(&mut self, now: Time, token: String, until: Time) -> (Vec<WorkItem>, u32) {
        let mut batch = Vec::new();
        let mut items = Vec::new();
        let mut attempts = 0;
        for (due, message) in self.messages.range_mut(..=(now, u64::MAX)) {
            message.attempts += 1;
            attempts = attempts.max(message.attempts);
            batch.push(*due);
            items.push((due.1, message.item.clone()));
        }
        // A message that was put off has a later due time than those that came after it, and still goes first.
        items.sort_unstable_by_key(|(rank, _)| *rank);
        self.lease = Some(Lease { token, until, batch });
        (items.into_iter().map(|(_, item)| item).collect(), attempts)
    }

    /// Ends the lease with its messages done.
    pub(crate) fn complete(&mut self) {
        for due in self.lease.take().into_iter().flat_map(|lease| lease.batch) {
            self.remove(due);
        }
    }

    /// Ends the lease with its messages to be claimed again: from `visible` on, or as they were.
    pub(crate) fn abandon(&mut self, visible: Option<Time>, uncharged: bool) {
        for due in self.lease.take().into_iter().flat_map(|lease| lease.batch) {
            let Some(mut message) = self.remove(due) else { continue };
            message.attempts -= u32::from(uncharged && message.attempts > 0);
            self.insert((visible.unwrap_or(due.0), due.1), message);
        }
    }

    /// Drops what is visible if all of it is addressed to a mailbox that only a running instance has. Whether it did.
    pub(crate) fn drop_orphans(&mut self, now: Time) -> bool {
        let visible = || self.messages.range(..=(now, u64::MAX));
        let orphans = visible().all(|(_, message)| matches!(message.item, WorkItem::QueueMessage { .. }));
        if orphans {
            for due in visible().map(|(due, _)| *due).collect::<Vec<_>>() {
                self.remove(due);
            }
        }
        orphans
    }

    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Messages that no live lease holds.
    pub(crate) fn free(&self, now: Time) -> usize {
        let held = self.lease.as_ref().filter(|lease| lease.until > now).map_or(0, |lease| lease.batch.len());
        self.messages.len() - held
    }

    pub(crate) fn max_attempts(&self) -> u32 {
        self.messages.values().map(|message| message.attempts).max().unwrap_or(0)
    }

    /// Its due time if it can be claimed now, from its messages one by one; `None` if it cannot.
    #[cfg(test)]
    pub(crate) fn due_by_scan(&self, now: Time, identified: bool) -> Option<Due> {
        let first = self.messages.keys().next()?;
        if let Some(lease) = &self.lease {
            return (lease.until <= now).then_some((lease.until, first.1));
        }
        let visible = self.messages.iter().filter(|((visible, _), _)| *visible <= now);
        visible.filter(|(_, message)| identified || begins(&message.item)).map(|(due, _)| *due).min()
    }

    /// When to poll it next, by its messages and its lease; `None` if only a new message can change anything.
    ///
    /// Without an identity there is nothing to run: the instance comes up with its first start. Messages that only a
    /// running instance can take come up by themselves, to be dropped; all others wait for a start, apart from the due
    /// ones.
    fn due(&self, identified: bool) -> Option<Due> {
        let (first, message) = self.messages.first_key_value()?;
        match &self.lease {
            Some(lease) => Some((lease.until, first.1)),
            None if identified => Some(*first),
            None if !self.starts.is_empty() => self.starts.first().copied(),
            None => matches!(message.item, WorkItem::QueueMessage { .. }).then_some(*first),
        }
    }
}

/// Whether a message can begin an instance.
fn begins(item: &WorkItem) -> bool {
    matches!(item, WorkItem::StartOrchestration { .. } | WorkItem::ContinueAsNew { .. })
}

/// The entry of an instance in the index: among the instances of its pinned version, by due time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    pin: Option<Pin>,
    due: Due,
}

/// Which pinned versions a claim takes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pins<'a> {
    All,
    None,
    /// An execution without a pin is within every range.
    Within(&'a SemverRange),
}

impl Pins<'_> {
    fn admit(self, pin: Option<Pin>) -> bool {
        match (self, pin) {
            (Self::None, _) => false,
            (Self::All, _) | (Self::Within(_), None) => true,
            (Self::Within(range), Some(pin)) => pin.within(range),
        }
    }
}

/// All instances with something to do, by pinned version and due time. There are few versions and many instances: a
/// claim looks at the head of each line that it may take from, and never at those that it may not.
#[derive(Debug, Default)]
pub(crate) struct Ready(BTreeMap<Option<Pin>, BTreeMap<Due, Arc<str>>>);

impl Ready {
    /// Updates the entry of an instance.
    pub(crate) fn update(&mut self, id: &Arc<str>, inbox: &mut Inbox, pin: Option<Pin>, identified: bool) {
        let entry = inbox.due(identified).map(|due| Entry { pin, due });
        if entry != inbox.entry {
            self.leave(inbox);
            if let Some(Entry { pin, due }) = entry {
                self.0.entry(pin).or_default().insert(due, Arc::clone(id));
            }
            inbox.entry = entry;
        }
    }

    /// Removes the entry of an instance until its next update.
    pub(crate) fn leave(&mut self, inbox: &mut Inbox) {
        let Some(Entry { pin, due }) = inbox.entry.take() else { return };
        if let Some(line) = self.0.get_mut(&pin) {
            line.remove(&due);
            if line.is_empty() {
                self.0.remove(&pin);
            }
        }
    }

    /// The first in line for `pins`, due or not.
    pub(crate) fn first(&self, pins: Pins<'_>) -> Option<(Due, &Arc<str>)> {
        let lines = self.0.iter().filter(|(pin, _)| pins.admit(**pin)).map(|(_, line)| line);
        lines.filter_map(BTreeMap::first_key_value).map(|(due, id)| (*due, id)).min_by_key(|(due, _)| *due)
    }
}
