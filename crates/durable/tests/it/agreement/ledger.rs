//! The log of concurrent workers, and the invariants of it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use duroxide::Event;
use duroxide::providers::{ExecutionMetadata, OrchestrationItem, ProviderError, ScheduledActivityIdentifier, WorkItem};
use fastrand::Rng;

use super::payload::input;

/// A turn that was fetched, and its outcome.
#[derive(Debug)]
pub(super) struct Turned {
    pub(super) item: OrchestrationItem,
    pub(super) attempt: u32,
    /// When the fetch had returned.
    pub(super) fetched: u64,
    pub(super) outcome: TurnOutcome,
}

#[derive(Debug)]
pub(super) enum TurnOutcome {
    Acked { begun: u64, ack: Box<Ack> },
    Abandoned { uncounted: bool },
    Left,
}

/// What an ack has committed.
#[derive(Debug, Clone)]
pub(super) struct Ack {
    pub(super) execution: u64,
    pub(super) events: Vec<Event>,
    pub(super) work: Vec<WorkItem>,
    pub(super) messages: Vec<WorkItem>,
    pub(super) metadata: ExecutionMetadata,
    pub(super) cancelled: Vec<ScheduledActivityIdentifier>,
}

/// An activity that was fetched, and its outcome.
#[derive(Debug)]
pub(super) struct Worked {
    pub(super) item: WorkItem,
    pub(super) attempt: u32,
    pub(super) outcome: WorkOutcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkOutcome {
    Acked,
    Abandoned {
        uncounted: bool,
    },
    Left,
    /// It was cancelled meanwhile.
    Refused,
}

impl WorkOutcome {
    pub(super) fn refused(error: &ProviderError) -> WorkOutcome {
        assert!(!error.is_retryable(), "{error}");
        WorkOutcome::Refused
    }
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    stamps: AtomicU64,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    instances: Vec<String>,
    sent: Vec<String>,
    /// The activities of the completions among them.
    completions: HashMap<String, (String, u64, u64)>,
    scheduled: Vec<WorkItem>,
    cancelled: HashSet<(String, u64, u64)>,
    turns: Vec<Turned>,
    work: Vec<Worked>,
}

impl Ledger {
    fn book(&self) -> std::sync::MutexGuard<'_, Book> {
        self.book.lock().expect("no panic while it is locked")
    }

    /// A logical time: later ones are larger.
    pub(super) fn stamp(&self) -> u64 {
        self.stamps.fetch_add(1, Ordering::SeqCst)
    }

    /// A message by its content, which is unique.
    pub(super) fn name(item: &WorkItem) -> String {
        format!("{item:?}")
    }

    pub(super) fn some_instance(&self, random: &mut Rng) -> Option<String> {
        random.choice(&self.book().instances).cloned()
    }

    pub(super) fn some_activity(&self, of: &str, random: &mut Rng) -> Option<ScheduledActivityIdentifier> {
        let book = self.book();
        let own: Vec<_> = book.scheduled.iter().map(identity).filter(|(instance, ..)| instance == of).collect();
        let (instance, execution_id, activity_id) = random.choice(own)?;
        Some(ScheduledActivityIdentifier { instance, execution_id, activity_id })
    }

    pub(super) fn started(&self, instance: String) {
        self.book().instances.push(instance);
    }

    pub(super) fn sent(&self, items: impl IntoIterator<Item = WorkItem>) {
        self.book().sent.extend(items.into_iter().map(|item| Self::name(&item)));
    }

    /// An activity was acked with this completion.
    pub(super) fn completed(&self, activity: &WorkItem, completion: WorkItem) {
        self.book().completions.insert(Self::name(&completion), identity(activity));
        self.sent([completion]);
    }

    pub(super) fn committed(&self, ack: &Ack) {
        let mut book = self.book();
        book.sent.extend(ack.messages.iter().map(Self::name));
        book.scheduled.extend(ack.work.iter().cloned());
        let cancelled = ack.cancelled.iter().map(|it| (it.instance.clone(), it.execution_id, it.activity_id));
        book.cancelled.extend(cancelled);
    }

    pub(super) fn turned(&self, turn: Turned) {
        self.book().turns.push(turn);
    }

    pub(super) fn worked(&self, work: Worked) {
        self.book().work.push(work);
    }

    /// The acked turns of each instance, in the order of their events.
    pub(super) fn into_turns(self) -> BTreeMap<String, Vec<(OrchestrationItem, u32, Ack)>> {
        let mut turns: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for turn in self.book.into_inner().expect("no panic while it was locked").turns {
            if let TurnOutcome::Acked { ack, .. } = turn.outcome {
                turns.entry(turn.item.instance.clone()).or_default().push((turn.item, turn.attempt, *ack));
            }
        }
        turns.values_mut().for_each(|turns| turns.sort_by_key(|(_, _, ack)| (ack.execution, ack.events[0].event_id)));
        turns
    }

    /// How many turns and activities were acked, given up and left: a run that has nothing of one kind has tested less
    /// than it says.
    pub(super) fn tally(&self) -> [usize; 6] {
        let book = self.book();
        let turns = |is: fn(&TurnOutcome) -> bool| book.turns.iter().filter(|turn| is(&turn.outcome)).count();
        let work = |is: fn(&WorkOutcome) -> bool| book.work.iter().filter(|work| is(&work.outcome)).count();
        [
            turns(|outcome| matches!(outcome, TurnOutcome::Acked { .. })),
            turns(|outcome| matches!(outcome, TurnOutcome::Abandoned { .. })),
            turns(|outcome| matches!(outcome, TurnOutcome::Left)),
            work(|outcome| matches!(outcome, WorkOutcome::Acked)),
            work(|outcome| matches!(outcome, WorkOutcome::Abandoned { .. })),
            work(|outcome| matches!(outcome, WorkOutcome::Left)),
        ]
    }

    /// Every message is in exactly one acked turn, and none that was not sent. A turn that cancels an activity may commit
    /// before an ack of it that has already returned, whose completion then never arrives.
    pub(super) fn check_messages(&self) {
        let book = self.book();
        // Sent counts for, taken against it.
        let mut balance: HashMap<String, i32> = HashMap::new();
        for message in &book.sent {
            *balance.entry(message.clone()).or_default() += 1;
        }
        for turn in book.turns.iter().filter(|turn| matches!(turn.outcome, TurnOutcome::Acked { .. })) {
            for message in &turn.item.messages {
                *balance.entry(Self::name(message)).or_default() -= 1;
            }
        }
        let is_cancelled =
            |name: &String| book.completions.get(name).is_some_and(|activity| book.cancelled.contains(activity));
        balance.retain(|name, balance| *balance != 0 && !(*balance == 1 && is_cancelled(name)));
        assert!(balance.is_empty(), "lost (above zero) or taken twice (below): {balance:#?}");
    }

    /// Every activity is executed once, unless it was cancelled; then at most once.
    pub(super) fn check_activities(&self) {
        let book = self.book();
        let mut acked: HashMap<&str, usize> = HashMap::new();
        for work in &book.work {
            match work.outcome {
                WorkOutcome::Acked => *acked.entry(input(&work.item)).or_default() += 1,
                WorkOutcome::Refused => {
                    assert!(book.cancelled.contains(&identity(&work.item)), "refused, not cancelled: {work:?}");
                }
                WorkOutcome::Abandoned { .. } | WorkOutcome::Left => {}
            }
        }
        for item in &book.scheduled {
            let times = acked.remove(input(item)).unwrap_or_default();
            let cancelled = book.cancelled.contains(&identity(item));
            assert!(times == 1 || times == 0 && cancelled, "executed {times} times: {item:?}");
        }
        assert!(acked.is_empty(), "executed, never scheduled: {acked:?}");
    }

    /// The attempt of an acked turn or activity counts every time that it was fetched, but those that were given back
    /// uncounted.
    pub(super) fn check_attempts(&self) {
        let book = self.book();
        let mut messages: HashMap<String, u32> = HashMap::new();
        for turn in &book.turns {
            let counts = !matches!(turn.outcome, TurnOutcome::Abandoned { uncounted: true });
            turn.item
                .messages
                .iter()
                .for_each(|item| *messages.entry(Self::name(item)).or_default() += u32::from(counts));
        }
        for turn in &book.turns {
            if matches!(turn.outcome, TurnOutcome::Acked { .. }) {
                let expected = turn.item.messages.iter().map(|item| messages[&Self::name(item)]).max();
                assert_eq!(Some(turn.attempt), expected, "attempt of {turn:?}");
            }
        }
        let mut activities: HashMap<&str, u32> = HashMap::new();
        for work in &book.work {
            let counts = work.outcome != WorkOutcome::Abandoned { uncounted: true };
            *activities.entry(input(&work.item)).or_default() += u32::from(counts);
        }
        for work in book.work.iter().filter(|work| work.outcome == WorkOutcome::Acked) {
            assert_eq!(work.attempt, activities[input(&work.item)], "attempt of {work:?}");
        }
    }

    /// Two workers never held an instance at once: between the fetch and the ack of a turn there is no other one.
    pub(super) fn check_exclusion(&self) {
        let book = self.book();
        let mut held: HashMap<&str, Vec<(u64, u64)>> = HashMap::new();
        for turn in &book.turns {
            if let TurnOutcome::Acked { begun, .. } = turn.outcome {
                held.entry(&turn.item.instance).or_default().push((turn.fetched, begun));
            }
        }
        for (instance, mut times) in held {
            times.sort_unstable();
            let apart = times.windows(2).all(|pair| pair[0].1 < pair[1].0);
            assert!(apart, "{instance} was leased twice at the same time: {times:?}");
        }
    }
}

/// Instance, execution and id of an activity.
fn identity(item: &WorkItem) -> (String, u64, u64) {
    match item {
        WorkItem::ActivityExecute { instance, execution_id, id, .. } => (instance.clone(), *execution_id, *id),
        other => panic!("no activity to execute: {other:?}"),
    }
}
