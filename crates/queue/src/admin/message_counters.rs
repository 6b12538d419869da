//! Counters of messages by queue and consumer group, since the start of the process.
//!
//! Alerts on rates need counters that never fall, and reading them must send no statement: so messages are counted
//! here, when outcomes become known. Names are up to users, so their number is bounded: the first names have counters
//! of their own, the others one together. A name never moves from one to the other, because its counter would fall.
//!
//! Messages of `push_in` and `ack_in` are not counted: this process does not learn whether those transactions commit.

use std::collections::HashMap;
use std::time::Instant;

use crate::admin::rate::Rate;
use crate::queues::Queues;
use parking_lot::{Mutex, MutexGuard};

/// Queues, and consumer groups, with counters of their own: the most that monitoring may ask for, about 200 bytes each
/// and their names.
pub const COUNTED_MAX: usize = 1_000;

/// The counters since the start of the process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MessageCounts {
    /// The first queues, and the others as one entry.
    pub queues: Vec<QueueCounts>,
    /// The first consumer groups, and the others as one entry.
    pub groups: Vec<GroupMessageCounts>,
}

/// The counter of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueCounts {
    /// Its name; `None`: the others.
    pub queue: Option<String>,
    /// Stored messages, without duplicates.
    pub pushed: u64,
}

/// The counters of a consumer group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMessageCounts {
    /// Its queue and its name; `None`: the others.
    pub group: Option<(String, String)>,
    /// The counters.
    pub counts: GroupCounts,
}

/// The counters of a consumer group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupCounts {
    /// Delivered to a consumer, including redeliveries.
    pub delivered: u64,
    /// Completed, including messages covered by a later ack or `autoAck`.
    pub acked: u64,
    /// Acked as failed.
    pub failed: u64,
    /// Made dead letters.
    pub dead_lettered: u64,
}

impl GroupCounts {
    fn add(&mut self, more: GroupCounts) {
        self.delivered += more.delivered;
        self.acked += more.acked;
        self.failed += more.failed;
        self.dead_lettered += more.dead_lettered;
    }
}

/// Messages per second of a queue, of the last ten seconds or so.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Rates {
    /// Stored, without duplicates.
    pub pushed: f64,
    /// Delivered to consumers of any group, including redeliveries.
    pub delivered: f64,
    /// Completed by any group.
    pub acked: f64,
}

/// The counters of this process.
#[derive(Debug, Default)]
pub(crate) struct MessageCounters(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    /// In the order of their first message.
    queues: Vec<(String, u64)>,
    groups: Vec<((String, String), GroupCounts)>,
    /// Their indexes, by queue; groups by name.
    queue_at: HashMap<String, usize>,
    group_at: HashMap<String, HashMap<String, usize>>,
    /// The rates of both, with the same indexes.
    queue_rates: Vec<Rate>,
    group_rates: Vec<[Rate; 2]>,
    /// Those beyond the bound. `None`: there are none.
    other_queues: Option<u64>,
    other_groups: Option<GroupCounts>,
}

impl MessageCounters {
    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.0.lock()
    }

    /// Counts stored messages.
    pub(crate) fn pushed(&self, queue: &str, messages: usize) {
        if messages > 0 {
            self.counted().add_to_queue(queue, messages as u64);
        }
    }

    /// Counts messages of a consumer group.
    pub(crate) fn add(&self, queue: &str, group: &str, counts: GroupCounts) {
        if counts != GroupCounts::default() {
            self.counted().add_to_group(queue, group, counts);
        }
    }

    /// Counts dead letters of a consumer group.
    pub(crate) fn dead_lettered(&self, queue: &str, group: &str, messages: usize) {
        self.add(queue, group, GroupCounts { dead_lettered: messages as u64, ..GroupCounts::default() });
    }

    /// The first `top` of each, and the others as one entry.
    fn read(&self, top: usize) -> MessageCounts {
        let counted = self.counted();
        let (queues, more_queues) = counted.queues.split_at(top.min(counted.queues.len()));
        let (groups, more_groups) = counted.groups.split_at(top.min(counted.groups.len()));
        let mut message_counts = MessageCounts {
            queues: queues
                .iter()
                .map(|(queue, pushed)| QueueCounts { queue: Some(queue.clone()), pushed: *pushed })
                .collect(),
            groups: groups
                .iter()
                .map(|(group, counts)| GroupMessageCounts { group: Some(group.clone()), counts: *counts })
                .collect(),
        };
        let pushed =
            more_queues.iter().map(|(_, pushed)| *pushed).chain(counted.other_queues).reduce(|one, other| one + other);
        message_counts.queues.extend(pushed.map(|pushed| QueueCounts { queue: None, pushed }));
        let counts =
            more_groups.iter().map(|(_, counts)| *counts).chain(counted.other_groups).reduce(|mut one, other| {
                one.add(other);
                one
            });
        message_counts.groups.extend(counts.map(|counts| GroupMessageCounts { group: None, counts }));
        message_counts
    }
}

impl Counted {
    /// The rates of a queue; its groups are added up.
    fn rates(&self, queue: &str, now: Instant) -> Rates {
        let pushed = self.queue_at.get(queue).map_or(0.0, |at| self.queue_rates[*at].at(now));
        let mut rates = Rates { pushed, ..Rates::default() };
        for at in self.group_at.get(queue).into_iter().flat_map(HashMap::values) {
            let [delivered, acked] = self.group_rates[*at];
            rates.delivered += delivered.at(now);
            rates.acked += acked.at(now);
        }
        rates
    }

    fn add_to_queue(&mut self, queue: &str, messages: u64) {
        let at = match self.queue_at.get(queue) {
            Some(at) => *at,
            None if self.queues.len() < COUNTED_MAX => {
                self.queue_at.insert(queue.to_owned(), self.queues.len());
                self.queues.push((queue.to_owned(), 0));
                self.queue_rates.push(Rate::default());
                self.queues.len() - 1
            }
            None => {
                *self.other_queues.get_or_insert_default() += messages;
                return;
            }
        };
        self.queues[at].1 += messages;
        self.queue_rates[at].add(messages, Instant::now());
    }

    fn add_to_group(&mut self, queue: &str, group: &str, counts: GroupCounts) {
        let at = match self.group_at.get(queue).and_then(|groups| groups.get(group)) {
            Some(at) => *at,
            None if self.groups.len() < COUNTED_MAX => {
                let groups = self.group_at.entry(queue.to_owned()).or_default();
                groups.insert(group.to_owned(), self.groups.len());
                self.groups.push(((queue.to_owned(), group.to_owned()), GroupCounts::default()));
                self.group_rates.push(Default::default());
                self.groups.len() - 1
            }
            None => {
                self.other_groups.get_or_insert_default().add(counts);
                return;
            }
        };
        let now = Instant::now();
        self.groups[at].1.add(counts);
        self.group_rates[at][0].add(counts.delivered, now);
        self.group_rates[at][1].add(counts.acked, now);
    }
}

impl Queues {
    /// The rates of a queue in this process, none of other servers; 0 beyond the first [`COUNTED_MAX`] queues. It sends
    /// no statement.
    pub fn rates(&self, queue: &str) -> Rates {
        self.inner.counters.counted().rates(queue, Instant::now())
    }

    /// The counters since the start of the process: the first `top` queues and groups, the others summed up. It sends
    /// no statement.
    pub fn message_counts(&self, top: u32) -> MessageCounts {
        self.inner.counters.read(top as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum of all entries is the total, and no entry falls, with more names than the bound, and with several
    /// limits. More queues and groups than the bound are counted twice, and read in between.
    #[test]
    fn names_beyond_the_bound_are_counted_together() {
        let counters = MessageCounters::default();
        let names: Vec<String> = (0..COUNTED_MAX + 5).map(|n| format!("q{n}")).collect();
        let mut last: HashMap<(usize, Option<String>), u64> = HashMap::new();
        for round in 1..=2 {
            for name in &names {
                counters.pushed(name, 2);
                counters.dead_lettered(name, "g", 1);
            }
            for top in [0, 1, COUNTED_MAX] {
                let message_counts = counters.read(top);
                assert_eq!((message_counts.queues.len(), message_counts.groups.len()), (top + 1, top + 1));
                assert_eq!(
                    message_counts.queues.iter().map(|it| it.pushed).sum::<u64>(),
                    round * 2 * names.len() as u64
                );
                let dead: u64 = message_counts.groups.iter().map(|it| it.counts.dead_lettered).sum();
                assert_eq!(dead, round * names.len() as u64);
                for QueueCounts { queue, pushed } in message_counts.queues {
                    assert!(last.insert((top, queue), pushed).is_none_or(|last| last <= pushed));
                }
            }
        }
    }

    /// A queue has the rates of its own messages: of pushes, and of what all its groups get.
    #[test]
    fn rates_are_those_of_the_queue() {
        let counters = MessageCounters::default();
        counters.pushed("q", 100);
        for group in ["g", "h"] {
            counters.add("q", group, GroupCounts { delivered: 100, acked: 50, ..GroupCounts::default() });
        }
        let rates = counters.counted().rates("q", Instant::now());
        assert!(rates.pushed > 0.0 && rates.delivered > rates.pushed && rates.acked < rates.delivered, "{rates:?}");
        assert_eq!(counters.counted().rates("other", Instant::now()), Rates::default());
    }

    /// Names without messages have no entry.
    #[test]
    fn zero_messages_add_no_entry() {
        let counters = MessageCounters::default();
        counters.pushed("q", 0);
        counters.add("q", "g", GroupCounts::default());
        assert_eq!(counters.read(10), MessageCounts::default());
    }
}
