//! The checker: everything that clients do at once, and a judgement of all that was seen.
//!
//! Tests of single promises try what somebody thought of. Here producers, consumers and administrators do everything at random, everything that was answered is
//! written down, and a pure function looks for what must not have happened. `REVEILLE_CHECKER_SECONDS` makes it run for longer; `REVEILLE_CHECKER_SEED` repeats the
//! choices, though not how they fall together.

mod consumer;
mod history;
mod judge;
mod log;
mod mover;
mod producer;
mod stage;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::fixture::Server;
pub(super) use consumer::{Reads, consume, drain};
pub(super) use producer::{Numbers, produce};
pub(super) use stage::{Plan, Stage};

/// How long people work, unless the environment says otherwise.
const WORK: Duration = Duration::from_secs(30);
/// The group that is moved, and where.
const WANDERER: (&str, &str) = ("wanderer", "checker.b");

/// Ends the run: lets each of the groups read what is left, and judges.
pub(super) async fn settle(stage: &Arc<Stage>, groups: &[(Option<&'static str>, Reads)]) {
    let mut drains = JoinSet::new();
    for (group, reads) in groups {
        for queue in stage.queues.iter().map(|queue| queue.name) {
            if matches!(reads, Reads::All) || matches!(reads, Reads::Queue(name) if *name == queue) {
                drains.spawn(drain(stage.clone(), stage.number(), *group, queue));
            }
        }
    }
    while let Some(drained) = drains.join_next().await {
        drained.expect("a drain");
    }
    stage.note_dead_letters().await;
    let log = stage.log().clone();
    let violations = judge::judge(&log, &stage.limits());
    let counts = [log.pushes.len(), log.deliveries.len(), log.words.len(), log.moves.len(), log.dead.len()];
    println!("pushes, deliveries, words, moves, dead letters: {counts:?}; unanswered: {}", stage.unanswered());
    assert!(violations.is_empty(), "{}", history::report(&log, &violations, stage.seed));
    assert!(log.pushes.len() > 50 && log.words.len() > 50, "hardly anything happened: {counts:?}");
}

/// Lets everybody finish.
pub(super) async fn finish(stage: &Stage, mut people: JoinSet<()>) {
    stage.end();
    while let Some(done) = people.join_next().await {
        done.unwrap_or_else(|error| panic!("seed {}: {error}", stage.seed));
    }
}

/// Whatever clients do at once, every promise of the queue must hold for each of them.
/// Two servers; producers with duplicates and races; three groups of consumers that ack, refuse, give up, extend, come too late and push on; one group
/// that is deleted and moved meanwhile. Then everything is read to its end, and the log is judged.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_was_promised_is_broken() {
    let seconds = std::env::var("REVEILLE_CHECKER_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let server = Server::start().await;
    let (_other, elsewhere) = server.another().await;
    let queue = |name, seconds, retry_limit| Plan {
        name,
        lanes: 4,
        lease: Duration::from_secs(seconds),
        retry_limit,
        expires: seconds < 10,
        fed: true,
    };
    let queues = [
        queue("checker.a", 2, 1),
        queue("checker.b", 1, 2),
        queue("checker.c", 30, 0),
        Plan { fed: false, ..queue("checker.sink", 2, 1) },
    ];
    let stage = Stage::set(&queues, &[server.address, elsewhere.address], false).await;
    let numbers = Arc::new(Numbers::default());
    let steady = [(None, Reads::All), (Some("first"), Reads::All), (Some("second"), Reads::All)];
    let groups = [&steady[..], &[(Some(WANDERER.0), Reads::Queue(WANDERER.1))]].concat();
    let mut people = JoinSet::new();
    for number in 0..4 {
        people.spawn(produce(stage.clone(), number, numbers.clone(), Duration::from_millis(150)));
    }
    for number in 100..104 {
        for (offset, (group, reads)) in groups.iter().enumerate() {
            people.spawn(consume(stage.clone(), number * 10 + offset as u64, *group, *reads));
        }
    }
    people.spawn(mover::wander(stage.clone(), 9_999, WANDERER.0, WANDERER.1));
    let work = seconds.map_or(WORK, Duration::from_secs);
    // Whoever panics meanwhile ends the test.
    let panicked = tokio::time::timeout(work, people.join_next()).await;
    assert!(panicked.is_err(), "seed {}: {panicked:?}", stage.seed);
    finish(&stage, people).await;
    settle(&stage, &groups).await;
}
