//! The transitions of tasks.

use std::collections::BTreeMap;
use std::time::Duration;

use reveille_flow::{AttemptResult, By, ClaimRequest, Operation, StepState, TaskState, Transition, TransitionId};
use serde_json::{json, value::RawValue};
use uuid::Uuid;

use crate::fixture::{Fixture, worker};
use crate::manual::who;

async fn moves(flow: &Fixture, task: Uuid) -> Vec<Transition> {
    flow.transitions(task).await.expect("an answer").expect("a task")
}

/// The states of the task (`""`) and of each step, in order. Checks that all transitions are legal, ordered, and end in
/// the current states.
pub(crate) async fn checked(flow: &Fixture, task: Uuid) -> BTreeMap<String, Vec<&'static str>> {
    let states = legal(flow, task).await;
    let shown = flow.flow.task(task).await.expect("an answer").expect("a task");
    assert_eq!(states[""].last(), Some(&shown.summary.status.name()), "{states:?}");
    for step in &shown.steps {
        assert_eq!(states[&step.name].last(), Some(&step.state.name()), "{}: {states:?}", step.name);
    }
    assert_eq!(states.len(), shown.steps.len() + 1);
    states
}

/// The same without the check of current states, which may have changed with time.
async fn legal(flow: &Fixture, task: Uuid) -> BTreeMap<String, Vec<&'static str>> {
    let moves = moves(flow, task).await;
    let mut states: BTreeMap<String, Vec<&'static str>> = BTreeMap::new();
    for (before, one) in [None].into_iter().chain(moves.iter().map(Some)).zip(&moves) {
        assert!(before.is_none_or(|before| before.id < one.id && before.at <= one.at), "{before:?} before {one:?}");
        assert_eq!(one.id.to_string().parse(), Ok(one.id));
        let so_far = states.entry(one.step.clone().unwrap_or_default()).or_default();
        assert_eq!(one.from, so_far.last().copied(), "{one:?}");
        so_far.push(one.to);
        let legal = match (one.step.is_some(), one.from) {
            (_, None) => one.to == "pending",
            (true, Some(from)) => step_state(from).may_become(step_state(one.to), By::Operator),
            (false, Some(from)) => {
                let state = |name| TaskState::named(name).expect("a state");
                state(from).may_become(state(one.to), By::Operator)
            }
        };
        assert!(legal, "{one:?}");
    }
    states
}

fn step_state(name: &str) -> StepState {
    StepState::named(name).expect("a state")
}

const DONE: [&str; 5] = ["pending", "enqueued", "in_progress", "enqueued_for_orchestration", "complete"];

/// All transitions of a task that succeeds.
#[tokio::test]
async fn a_success_has_all_transitions() {
    let flow = Fixture::with("[{name: a}, {name: b, dependencies: [a]}]").await;
    let task = flow.task().await;
    checked(&flow, task).await;
    let a = flow.next().await;
    checked(&flow, task).await;
    flow.complete(&a, json!(1)).await;
    checked(&flow, task).await;
    flow.waves().await;
    let states = checked(&flow, task).await;
    assert_eq!((&states["a"][..], &states["b"][..]), (&DONE[..], &DONE[..]));
    let of_task = "pending initializing enqueuing_steps steps_in_process evaluating_results enqueuing_steps \
        steps_in_process evaluating_results complete";
    assert_eq!(states[""].join(" "), of_task.split_whitespace().collect::<Vec<_>>().join(" "));
    let moves = moves(&flow, task).await;
    let claimed = moves.iter().find(|one| one.to == "in_progress").expect("a claim");
    assert_eq!((claimed.worker.as_deref(), claimed.attempt), (Some("tester"), Some(1)));
    let position = |step: &str, to: &str| {
        let found = moves.iter().position(|one| one.step.as_deref().unwrap_or_default() == step && one.to == to);
        found.expect("a move")
    };
    assert!(position("a", "complete") < position("", "evaluating_results"), "the task reacts to its steps");
    assert!(position("", "evaluating_results") < position("b", "enqueued"));
}

/// Attempts that fail, yield, are released or lost, and a task that fails with a ready step: every transition is legal,
/// and every state that was shown is there.
#[tokio::test]
async fn failures_have_legal_transitions() {
    let flow = Fixture::with("[{name: a, retry: {max_attempts: 3, backoff: none}}, {name: b}, {name: c}]").await;
    let task = flow.task().await;
    let only = |name: &str| ClaimRequest { steps: Some(vec![name.to_owned()]), ..worker() };
    let next = async |who: &ClaimRequest| flow.claim(who, 1, None).await.expect("a claim").pop().expect("a step");
    flow.say(&next(&only("a")).await, AttemptResult::GivenBack).await.expect("it counts");
    checked(&flow, task).await;
    let half = RawValue::from_string("1".to_owned()).expect("JSON");
    flow.say(&next(&only("a")).await, AttemptResult::Yielded(half)).await.expect("it counts");
    checked(&flow, task).await;
    flow.fail(&next(&only("a")).await, true).await;
    checked(&flow, task).await;
    next(&ClaimRequest { lease: Duration::from_millis(100), ..only("a") }).await;
    let dying = async || flow.claim(&only("a"), 1, Some(tokio::time::Instant::now() + crate::fixture::PATIENCE)).await;
    let last = dying().await.expect("a claim").pop().expect("its lease ends");
    checked(&flow, task).await;
    let b = next(&only("b")).await;
    flow.fail(&last, true).await;
    let states = checked(&flow, task).await;
    let again = "waiting_for_retry pending enqueued in_progress";
    let a = format!(
        "pending enqueued in_progress {again} {again} enqueued_as_error_for_orchestration {again} {again} \
         enqueued_as_error_for_orchestration error"
    );
    assert_eq!(states["a"].join(" "), a.split_whitespace().collect::<Vec<_>>().join(" "));
    assert_eq!(states[""].last(), Some(&"steps_in_process"), "b is in progress");
    assert_eq!(states["c"].join(" "), "pending enqueued waiting_for_retry pending", "it is not claimed");
    flow.complete(&b, json!(1)).await;
    let states = checked(&flow, task).await;
    assert!(states[""].join(" ").ends_with("steps_in_process evaluating_results blocked_by_failures error"));
}

/// A step that waits for a retry is enqueued when it is due, without any write.
#[tokio::test]
async fn a_retry_is_enqueued_by_the_clock() {
    let flow = Fixture::with("[{name: a, retry: {backoff_base_ms: 60, backoff: linear, jitter: 0}}]").await;
    let task = flow.task().await;
    flow.fail(&flow.next().await, true).await;
    reveille_pg::testing::eventually("its time comes", async || {
        moves(&flow, task).await.iter().filter(|one| one.to == "enqueued").count() == 2
    })
    .await;
    let before = checked(&flow, task).await;
    assert!(before[""].join(" ").ends_with("waiting_for_retry enqueuing_steps"), "{before:?}");
    let ids: Vec<TransitionId> = moves(&flow, task).await.iter().map(|one| one.id).collect();
    flow.waves().await;
    checked(&flow, task).await;
    let after: Vec<TransitionId> = moves(&flow, task).await.iter().map(|one| one.id).collect();
    assert_eq!(after[..ids.len()], ids, "published transitions stay");
}

/// Decisions and batches: a created step is pending from then on, one that is never created has no transitions.
#[tokio::test]
async fn created_steps_have_transitions_from_then_on() {
    for cursors in [json!([1, 2]), json!([])] {
        let flow = Fixture::with(
            "[{name: first}, {name: route, type: decision, dependencies: [first]}, {name: left, dependencies: [route]},
              {name: right, dependencies: [route]},
              {name: split, type: batchable, dependencies: [left], batch_config: {worker_template: rows}},
              {name: rows, type: batch_worker, dependencies: [split]},
              {name: end, type: deferred_convergence, dependencies: [rows, right]}]",
        )
        .await;
        let task = flow.task().await;
        let mut published: Vec<TransitionId> = Vec::new();
        loop {
            checked(&flow, task).await;
            let ids: Vec<TransitionId> = moves(&flow, task).await.iter().map(|one| one.id).collect();
            assert_eq!(ids[..published.len()], published, "published transitions stay, and new ones come after them");
            published = ids;
            let Some(step) = flow.now(1).await.pop() else { break };
            checked(&flow, task).await;
            let result = match step.name.as_str() {
                "route" => json!({"decision_point_outcome": {"type": "create_steps", "step_names": ["left"]}}),
                "split" => {
                    json!({"batch_processing_outcome": {"type": "create_batches", "cursor_configs": cursors.clone()}})
                }
                _ => json!(1),
            };
            flow.complete(&step, result).await;
        }
        let states = checked(&flow, task).await;
        assert_eq!(states[""].last(), Some(&"complete"));
        assert_eq!((&states["rows_001"][..], &states["end"][..]), (&DONE[..], &DONE[..]));
        assert!(!states.contains_key("right"));
    }
}

/// Manual operations have transitions, too, at their time: a failed task that continues, one that is resolved, one that
/// is cancelled, one that took too long.
#[tokio::test]
async fn manual_operations_have_legal_transitions() {
    let flow = Fixture::with("[{name: a, retry: {max_attempts: 1}}, {name: b, dependencies: [a]}]").await;
    let failed = async || {
        let task = flow.task().await;
        flow.fail(&flow.next().await, true).await;
        checked(&flow, task).await;
        task
    };
    let ends = |states: &BTreeMap<String, Vec<&str>>, of: &str, with: &str| {
        assert!(states[of].join(" ").ends_with(with), "{of}: {states:?}");
    };
    let task = failed().await;
    flow.operate(task, "a", Operation::ResetForRetry, who()).await.expect("it is reset");
    let states = checked(&flow, task).await;
    ends(&states, "", "blocked_by_failures error enqueuing_steps");
    ends(&states, "a", "error pending enqueued");
    let audit = flow.audit(task, "a", 0, 100).await.expect("an answer").expect("a step").attempts;
    assert_eq!(
        (audit[1].outcome, audit[1].worker.as_deref()),
        (reveille_flow::Outcome::Reset, Some(who().name.as_str()))
    );
    assert_eq!(audit[1].reason, who().reason);
    flow.waves().await;
    assert_eq!(checked(&flow, task).await[""].last(), Some(&"complete"));

    let task = failed().await;
    let published = moves(&flow, task).await;
    flow.resolve(task, who()).await.expect("it is resolved");
    let states = checked(&flow, task).await;
    ends(&states, "", "blocked_by_failures error resolved_manually");
    ends(&states, "b", "pending cancelled");
    assert_eq!(moves(&flow, task).await[..published.len()], published, "it was resolved after it had failed");

    let task = flow.task().await;
    flow.next().await;
    flow.cancel(task, who()).await.expect("it is cancelled");
    let states = checked(&flow, task).await;
    ends(&states, "", "steps_in_process cancelled");
    ends(&states, "a", "in_progress cancelled");
    let audit = flow.audit(task, "a", 0, 100).await.expect("an answer").expect("a step").attempts;
    assert_eq!((audit[0].outcome, audit.len()), (reveille_flow::Outcome::TakenAway, 1));

    let task = flow.task().await;
    let late = flow.db.schema().sql("select {schema}.end_tasks(array[$1::uuid], 'error')");
    sqlx::query(&late).bind(task).execute(flow.db.database().pool()).await.expect("it took too long");
    ends(&checked(&flow, task).await, "", "enqueuing_steps error");
}

/// Whatever happens to a task, in any order, its history is legal, and keeps published transitions, except for a due
/// retry that a failure of the task takes back.
/// Random graphs with random reports: completed, failed, released, yielded, or left until the lease ends.
#[tokio::test]
async fn random_histories_are_legal() {
    for seed in 0..12 {
        let mut random = fastrand::Rng::with_seed(seed);
        let steps: Vec<String> = (0..6)
            .map(|step| {
                let before: Vec<String> =
                    (0..step).filter(|_| random.u8(..3) == 0).map(|one| format!("s{one}")).collect();
                let attempts = random.u8(1..4);
                let retry = format!("retry: {{max_attempts: {attempts}, backoff: linear, backoff_base_ms: 20}}");
                format!("{{name: s{step}, {retry}, dependencies: [{}]}}", before.join(", "))
            })
            .collect();
        let flow = Fixture::with(&format!("[{}]", steps.join(", "))).await;
        let _orchestrator = flow.orchestrate();
        let task = flow.task().await;
        let (mut held, mut published) = (Vec::new(), Vec::<TransitionId>::new());
        for _ in 0..40 {
            let lease = Duration::from_millis(if random.u8(..4) == 0 { 100 } else { 60_000 });
            held.extend(
                flow.claim(&ClaimRequest { lease, ..worker() }, random.usize(1..3), None).await.expect("a claim"),
            );
            if !held.is_empty() {
                let step = held.swap_remove(random.usize(..held.len()));
                let said = match random.u8(..8) {
                    0 => AttemptResult::GivenBack,
                    1 => AttemptResult::Yielded(RawValue::from_string("1".to_owned()).expect("JSON")),
                    2 => AttemptResult::Failed(crate::fixture::failure(true)),
                    3 if random.u8(..4) == 0 => AttemptResult::Failed(crate::fixture::failure(false)),
                    // The step is left to its lease.
                    4 if step.lease < Duration::from_secs(1) => continue,
                    _ => AttemptResult::Complete(json!(1).into()),
                };
                // Its lease may have ended: then the report is rejected.
                let _ = flow.say(&step, said).await;
            }
            let states = legal(&flow, task).await;
            let ids: Vec<TransitionId> = moves(&flow, task).await.iter().map(|one| one.id).collect();
            let failed = states[""].contains(&"error") || states.values().any(|states| states.contains(&"error"));
            if !failed {
                assert_eq!(
                    ids[..published.len()],
                    published,
                    "published transitions stay, and new ones come after them (seed {seed})"
                );
            }
            published = ids;
        }
    }
}

/// An expired lease has a transition from the next claim on: transitions published before that claim do not come after
/// it.
#[tokio::test]
async fn a_lease_that_ended_shows_when_it_is_noticed() {
    let flow = Fixture::with("[{name: a}, {name: b}]").await;
    let task = flow.task().await;
    let only = |name: &str, lease: Duration| ClaimRequest { steps: Some(vec![name.to_owned()]), lease, ..worker() };
    let short = only("a", Duration::from_millis(100));
    assert_eq!(flow.claim(&short, 1, None).await.expect("a claim").len(), 1);
    let ended = async || {
        let sql = flow.db.schema().sql("select due_at < now() from {schema}.step where task_id = $1 and ordinal = 0");
        sqlx::query_scalar(&sql).bind(task).fetch_one(flow.db.database().pool()).await.expect("a step")
    };
    reveille_pg::testing::eventually("the lease ends", ended).await;
    let b = flow.claim(&only("b", Duration::from_secs(60)), 1, None).await.expect("a claim").remove(0);
    flow.complete(&b, json!(1)).await;
    checked(&flow, task).await;
    let published = moves(&flow, task).await;
    flow.next().await;
    let states = checked(&flow, task).await;
    assert!(states["a"].join(" ").ends_with("in_progress waiting_for_retry pending enqueued in_progress"));
    assert_eq!(moves(&flow, task).await[..published.len()], published);
}
