//! Messages that come before their instance is started.
//!
//! They wait for the start. The contract leaves open whether they are in its turn or in a later one, so the stores are
//! not compared turn by turn:
//! in each, every message is taken by exactly one turn. Only those to a mailbox may be dropped, and only while the
//! instance has not been started.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use duroxide::providers::{ExecutionMetadata, WorkItem};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::pair::{LONG, Pair, Store, Verdict, agree};
use super::payload::{NAME, VERSION, message, numbered, raised, started};
use super::sequences;
use super::step::Kind;

const SEQUENCES: u32 = 25;
const INSTANCES: [&str; 3] = ["a", "b", "c"];
/// Fetches that may find nothing while something is left: each only puts something aside.
const EMPTY_MAX: usize = 20;

#[derive(Debug, Clone, Copy)]
enum Step {
    Send { to: usize, kind: Kind },
    Turn,
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![
        2 => Just(Kind::Start),
        3 => Just(Kind::Raised),
        2 => Just(Kind::Completed),
        1 => Just(Kind::Cancel),
        3 => Just(Kind::Queue),
    ];
    prop_oneof![3 => (0..INSTANCES.len(), kind).prop_map(|(to, kind)| Step::Send { to, kind }), 2 => Just(Step::Turn)]
}

/// What came of one store.
#[derive(Debug, Default)]
struct Course {
    /// What was sent that must arrive; to a mailbox, only what came after the start.
    due: BTreeSet<String>,
    /// What was sent and may be dropped.
    optional: BTreeSet<String>,
    taken: BTreeMap<String, usize>,
}

impl Course {
    async fn send(&mut self, store: &dyn Store, to: &str, kind: Kind, data: &str) {
        let item = message(kind, to, data, 0);
        let running = store.get_instance_info(to).await.is_ok();
        let droppable = kind == Kind::Queue && !running;
        if droppable { &mut self.optional } else { &mut self.due }.insert(format!("{item:?}"));
        store.enqueue_for_orchestrator(item, None).await.expect("sent");
    }

    /// Takes a turn, if there is one.
    async fn turn(&mut self, store: &dyn Store) -> bool {
        let fetched = store.fetch_orchestration_item(LONG, Duration::ZERO, None).await.expect("a fetch");
        let Some((item, token, _)) = fetched else { return false };
        let begins = item.history.is_empty();
        let starts = |item: &WorkItem| matches!(item, WorkItem::StartOrchestration { .. });
        assert!(!begins || item.messages.iter().any(starts), "begun by nothing: {item:?}");
        let mut kinds: Vec<_> = begins.then(|| started("", 0)).into_iter().collect();
        for message in &item.messages {
            *self.taken.entry(format!("{message:?}")).or_default() += 1;
            kinds.push(raised(format!("{message:?}")));
        }
        let metadata = ExecutionMetadata {
            orchestration_name: begins.then(|| NAME.to_owned()),
            orchestration_version: begins.then(|| VERSION.to_owned()),
            ..ExecutionMetadata::default()
        };
        let events = numbered(&item.instance, 1, item.history.len() as u64 + 1, kinds);
        let acked = store.ack_orchestration_item(&token, 1, events, Vec::new(), Vec::new(), metadata, Vec::new()).await;
        acked.expect("acked");
        true
    }

    /// Starts everything and takes all turns that are left.
    async fn finish(&mut self, store: &dyn Store) -> Verdict {
        for instance in INSTANCES {
            self.send(store, instance, Kind::Start, "last").await;
        }
        let mut empty = 0;
        loop {
            let found = self.turn(store).await;
            let left = store.get_queue_depths().await.expect("depths").orchestrator_queue;
            match (found, left) {
                (false, 0) => break,
                (true, _) => empty = 0,
                (false, _) => empty += 1,
            }
            if empty > EMPTY_MAX {
                return Err(TestCaseError::fail(format!("{left} messages are left in {}", store.name())));
            }
        }
        for message in &self.due {
            agree(&format!("times {message} was taken in {}", store.name()), self.taken.remove(message), Some(1))?;
        }
        for (message, times) in &self.taken {
            prop_assert!(self.optional.contains(message) && *times == 1, "{message} was taken {times} times");
        }
        Ok(())
    }
}

/// Messages may come before a start in any order, and be polled any number of times: none that must arrive is lost, and
/// none is taken twice. Both stores process the same sequence, and then everything is started and all turns are taken.
#[test]
fn messages_before_a_start_are_taken_once() {
    sequences(SEQUENCES, &vec(step(), 10..=25), Pair::fixture(), async |fixture, steps| {
        let pair = Pair::new(fixture).await;
        let verdicts = pair.both(async |side| {
            let mut course = Course::default();
            for (number, step) in steps.iter().enumerate() {
                pair.memory.clock().advance(Duration::from_millis(1));
                match *step {
                    Step::Send { to, kind } => course.send(side.store, INSTANCES[to], kind, &number.to_string()).await,
                    Step::Turn => drop(course.turn(side.store).await),
                }
            }
            course.finish(side.store).await
        });
        verdicts.await.into_iter().collect()
    });
}
