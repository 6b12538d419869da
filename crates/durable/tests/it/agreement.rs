//! The provider against the model in memory.
//!
//! The contract is large, and calls that a validation suite checks one by one can still go wrong in an unusual order.
//! So random sequences of calls are sent to both stores, and every answer must be the same. The model is simple enough
//! to be compared with the contract; where the two differ by design, the code that translates says why.

mod acks;
mod answers;
mod concurrent;
mod crowd;
mod early;
mod found;
mod leases;
mod ledger;
mod pair;
mod payload;
mod queries;
mod step;
mod take;
mod weights;

use std::fmt::Debug;

use proptest::collection::vec;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestError, TestRunner};

use crate::fixture::Fixture;
use pair::{Pair, Verdict};
use step::Step;

/// How many sequences are tried by default; the variable `PROPTEST_CASES` asks for more.
const SEQUENCES: u32 = 30;
/// Enough that an execution ends and its successor begins, and that leases end in between.
const STEPS: std::ops::RangeInclusive<usize> = 30..=60;
/// Attempts to make a sequence smaller that disagrees: each takes about as long as a sequence.
const SHRINKS_MAX: u32 = 600;

/// Tries random sequences one after another, on one schema.
fn sequences<S: Debug>(
    by_default: u32,
    strategy: &impl Strategy<Value = Vec<S>>,
    fixture: impl Future<Output = Fixture>,
    run: impl AsyncFn(&Fixture, &[S]) -> Verdict,
) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let fixture = runtime.block_on(fixture);
    let asked = std::env::var_os("PROPTEST_CASES").map(|_| Config::default().cases);
    let config = Config {
        cases: asked.unwrap_or(by_default),
        failure_persistence: None,
        max_shrink_iters: SHRINKS_MAX,
        ..Config::default()
    };
    match TestRunner::new(config).run(strategy, |steps| runtime.block_on(run(&fixture, &steps))) {
        Ok(()) => {}
        Err(TestError::Fail(reason, steps)) => {
            let steps = steps.iter().map(|step| format!("{step:?}")).filter(|step| step != "Nothing");
            panic!("{reason}\nafter\n{}", steps.collect::<Vec<_>>().join("\n"));
        }
        Err(error) => panic!("{error}"),
    }
}

/// Any sequence of calls has the same answers as in the model, and leaves the same state and the same work behind.
/// Every step is taken in both stores; the end compares everything that can be read and then drains the queues.
#[test]
fn any_sequence_of_calls_answers_as_the_model_does() {
    sequences(SEQUENCES, &vec(weights::step(), STEPS), Pair::fixture(), async |fixture, steps| {
        let mut pair = Pair::new(fixture).await;
        for step in steps {
            pair.take(step).await?;
        }
        pair.look_at_everything().await
    });
}

/// The same with pipelined acks, once these have ended: what an ack answers before its commit is what it would answer after
/// it, and a token that is used twice, cancelled or deleted is rejected at once.
/// Without the steps that let time pass: a provider knows only its own time, and does not notice that the tables' has moved.
#[test]
fn any_sequence_of_pipelined_calls_answers_as_the_model_does() {
    let now = |step: &Step| !matches!(step, Step::Pass { .. } | Step::Lapse { .. });
    let step = weights::step().prop_filter("time does not pass", now);
    sequences(SEQUENCES, &vec(step, STEPS), Pair::pipelining_fixture(), async |fixture, steps| {
        let mut pair = Pair::new(fixture).await;
        for step in steps {
            pair.take(step).await?;
            pair.after_acks().await;
        }
        pair.look_at_everything().await
    });
}
