//! Claims: which worker gets which steps, when, and the effect of a lost claim.

use std::time::Duration;

use reveille_flow::{AttemptResult, ClaimRequest, Refused, StepState};
use reveille_pg::testing::eventually;
use serde_json::json;
use tokio::time::Instant;
use uuid::Uuid;

use crate::fixture::{Fixture, NAMESPACE, PATIENCE, failure, submission, worker};

/// A waiting worker is woken by a submission, and by the completion of a dependency.
/// It waits before there is a step, with a deadline that polling alone would miss.
#[tokio::test]
async fn a_waiting_worker_is_woken() {
    let flow = Fixture::with("[{name: a}, {name: b, dependencies: [a]}]").await;
    let waiting = |flow: reveille_flow::Flow| {
        tokio::spawn(async move { flow.claim(&worker(), 1, Some(Instant::now() + PATIENCE)).await.expect("a claim") })
    };
    let first = waiting(flow.flow.clone());
    flow.task().await;
    let a = first.await.expect("no panic").pop().expect("a step");
    let second = waiting(flow.flow.clone());
    flow.complete(&a, json!(1)).await;
    assert_eq!(second.await.expect("no panic")[0].name, "b");
}

/// A worker gets the steps it names, in the namespaces it names, and no others.
#[tokio::test]
async fn a_worker_gets_the_steps_it_names() {
    let flow = Fixture::with("[{name: a}, {name: b}]").await;
    flow.task().await;
    let of = |namespace: &str, steps: &[&str]| ClaimRequest {
        namespaces: vec![namespace.to_owned()],
        steps: Some(steps.iter().map(|step| (*step).to_owned()).collect()),
        ..worker()
    };
    assert!(flow.claim(&of("elsewhere", &["a"]), 9, None).await.expect("a claim").is_empty());
    let got = flow.claim(&of("tests", &["b", "c"]), 9, None).await.expect("a claim");
    assert_eq!(got.iter().map(|step| step.name.as_str()).collect::<Vec<_>>(), ["b"]);
    assert_eq!(flow.run().await, ["a"]);
}

/// Steps of a higher priority come first; within one, those that have been ready longest.
#[tokio::test]
async fn priority_comes_first_then_age() {
    let flow = Fixture::with("[{name: a}]").await;
    let mut tasks = Vec::new();
    for priority in [0, 5, 0, -3, 5] {
        let task = reveille_flow::Submission { priority, ..submission("t", json!({})) };
        tasks.push(flow.submit(task).await.expect("a task").task_uuid);
    }
    let mut order = Vec::new();
    for _ in &tasks {
        let step = flow.next().await;
        order.push(tasks.iter().position(|task| *task == step.token.task).expect("one of them"));
    }
    assert_eq!(order, [1, 4, 0, 2, 3]);
}

/// A step is due again when its lease expires, with the attempt counted; a late report under the old claim is rejected
/// and changes nothing.
#[tokio::test]
async fn a_lost_lease_is_fenced() {
    let flow = Fixture::with("[{name: a}]").await;
    let task = flow.task().await;
    let short = ClaimRequest { lease: Duration::from_millis(200), name: "slow".to_owned(), ..worker() };
    let lost = flow.claim(&short, 1, None).await.expect("a claim").pop().expect("a step");
    let again = flow.next().await;
    assert_eq!((lost.attempt, again.attempt), (1, 2));
    assert_eq!(flow.say(&lost, AttemptResult::Complete(json!("late").into())).await, Err(Refused::Lost));
    assert_eq!(flow.complete(&again, json!("in time")).await.step, StepState::Complete);
    assert_eq!(flow.say(&lost, AttemptResult::Complete(json!("late").into())).await, Err(Refused::Lost));
    assert_eq!(flow.attempts(task).await, [(1, "lease_ended".to_owned()), (2, "complete".to_owned())]);
}

/// A repeated report has the same outcome, and is applied once.
#[tokio::test]
async fn repeated_reports_count_once() {
    let flow = Fixture::with("[{name: a}, {name: b, dependencies: [a]}]").await;
    let task = flow.task().await;
    let a = flow.next().await;
    for repeated in [false, true] {
        let outcome = flow.complete(&a, json!(1)).await;
        assert_eq!((outcome.step, outcome.repeated), (StepState::Complete, repeated));
    }
    assert_eq!(flow.state_and_open_steps(task).await, ("open".to_owned(), 1));
    assert_eq!(flow.run().await, ["b"]);
}

/// A claim that has ended rejects a different report; the same report again is a repetition.
/// Each report ends a claim and is repeated; then each other one is sent with the token of that claim.
#[tokio::test]
async fn a_different_report_after_the_end_is_rejected() {
    let checkpoint = || serde_json::value::to_raw_value(&7).expect("JSON");
    let said = |which: usize| match which {
        0 => AttemptResult::Complete(json!(1).into()),
        1 => AttemptResult::Failed(failure(true)),
        2 => AttemptResult::Failed(failure(false)),
        3 => AttemptResult::Yielded(checkpoint()),
        _ => AttemptResult::GivenBack,
    };
    let flow = Fixture::with("[{name: a, retry: {max_attempts: 9, backoff: none}}]").await;
    for first in 0..5 {
        flow.task().await;
        let step = flow.next().await;
        assert!(!flow.say(&step, said(first)).await.expect("it counts").repeated);
        assert!(flow.say(&step, said(first)).await.expect("it is repeated").repeated);
        // A failure of the last attempt is stored as permanent.
        for other in (0..5).filter(|other| *other != first && (*other, first) != (1, 2)) {
            assert_eq!(flow.say(&step, said(other)).await, Err(Refused::Lost), "{other} after {first}");
        }
        flow.run().await;
    }
}

/// A worker that stops releases its steps at once, uncharged; a yielded step keeps its checkpoint for the next worker.
#[tokio::test]
async fn released_steps_are_not_charged() {
    let flow = Fixture::with("[{name: a}]").await;
    flow.task().await;
    let first = flow.next().await;
    assert_eq!(flow.say(&first, AttemptResult::GivenBack).await.expect("it counts").step, StepState::Enqueued);
    let second = flow.next().await;
    assert_eq!((second.attempt, second.checkpoint.is_none()), (1, true));
    let checkpoint = serde_json::value::to_raw_value(&json!({"row": 7})).expect("JSON");
    flow.say(&second, AttemptResult::Yielded(checkpoint)).await.expect("it counts");
    let third = flow.next().await;
    assert_eq!((third.attempt, third.checkpoint.expect("a checkpoint").get()), (1, r#"{"row":7}"#));
}

/// A claim whose caller is gone is released.
/// Its future is dropped during the claim, and another worker gets the step long before its lease would end.
#[tokio::test]
async fn a_dropped_claim_delays_no_other_worker() {
    let flow = Fixture::with("[{name: a}]").await;
    let waiting = flow.flow.clone();
    let first = tokio::spawn(async move { waiting.claim(&worker(), 1, Some(Instant::now() + PATIENCE)).await });
    let submitted = flow.task();
    tokio::pin!(submitted);
    tokio::select! {
        _ = &mut submitted => {}
        () = tokio::task::yield_now() => {}
    }
    first.abort();
    submitted.await;
    let _ = first.await;
    assert_eq!(flow.next().await.attempt, 1);
}

/// Concurrent workers never have the same step.
#[tokio::test(flavor = "multi_thread")]
async fn two_workers_never_have_the_same_step() {
    let flow = Fixture::with("[{name: a}]").await;
    for _ in 0..40 {
        flow.task().await;
    }
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let flow = flow.flow.clone();
        workers.spawn(async move {
            let mut mine = Vec::new();
            loop {
                let steps = flow.claim(&worker(), 3, None).await.expect("a claim");
                if steps.is_empty() {
                    return mine;
                }
                mine.extend(steps.into_iter().map(|step| step.token.task));
            }
        });
    }
    let mut all = Vec::new();
    while let Some(mine) = workers.join_next().await {
        all.extend(mine.expect("no panic"));
    }
    let distinct: std::collections::HashSet<_> = all.iter().collect();
    assert_eq!((all.len(), distinct.len()), (40, 40));
}

/// A heartbeat extends the lease of a step; that of a worker that has lost the step is rejected.
#[tokio::test]
async fn a_heartbeat_keeps_the_step() {
    let flow = Fixture::with("[{name: a}]").await;
    flow.task().await;
    let short = ClaimRequest { lease: Duration::from_millis(300), ..worker() };
    let step = flow.claim(&short, 1, None).await.expect("a claim").pop().expect("a step");
    let alive =
        |lease| reveille_flow::Renewal { token: step.token, lease: Duration::from_millis(lease), checkpoint: None };
    assert_eq!(flow.heartbeat(vec![alive(800)]).await.expect("an answer"), [Ok(())]);
    let since = Instant::now();
    let again = flow.next().await;
    assert!(since.elapsed() > Duration::from_millis(700), "{:?}", since.elapsed());
    assert_eq!(flow.heartbeat(vec![alive(800)]).await.expect("an answer"), [Err(Refused::Lost)]);
    assert_eq!(flow.complete(&again, json!(1)).await.step, StepState::Complete);
}

/// An attempt ends at the step's timeout, however many heartbeats there are.
#[tokio::test]
async fn heartbeats_do_not_extend_the_timeout() {
    let flow = Fixture::with("[{name: a, timeout_seconds: 0.5, retry: {backoff: none}}]").await;
    let _orchestrator = flow.orchestrate();
    flow.task().await;
    let step = flow.next().await;
    let lease = Duration::from_secs(60);
    let checkpoint = serde_json::value::to_raw_value(&7).expect("JSON");
    let alive = reveille_flow::Renewal { token: step.token, lease, checkpoint: Some(checkpoint) };
    assert_eq!(flow.heartbeat(vec![alive]).await.expect("an answer"), [Ok(())]);
    let again = flow.next().await;
    assert_eq!((again.attempt, again.checkpoint.expect("a checkpoint").get()), (2, "7"));
}

/// The lease of a last attempt ends without a worker: the engine ends the step and its task.
/// No worker claims any more.
#[tokio::test]
async fn a_last_attempt_that_is_lost_ends_the_task() {
    let flow = Fixture::with("[{name: a, retry: {max_attempts: 1}}]").await;
    let _orchestrator = flow.orchestrate();
    let task = flow.task().await;
    let short = ClaimRequest { lease: Duration::from_millis(200), ..worker() };
    let lost = flow.claim(&short, 1, None).await.expect("a claim").pop().expect("a step");
    reveille_pg::testing::eventually("the task ends", async || flow.state_and_open_steps(task).await.0 == "error")
        .await;
    assert_eq!(flow.say(&lost, AttemptResult::Complete(json!("late").into())).await, Err(Refused::Lost));
    assert_eq!(flow.attempts(task).await, [(1, "lease_ended".to_owned())]);
}

/// A released step wakes a claim that waits for its name, in every group.
#[tokio::test]
async fn released_steps_wake_other_groups() {
    let flow = Fixture::with("[{name: a}]").await;
    flow.task().await;
    let held = flow.next().await;
    let waiting = flow.waiting(&["a"]).await;
    flow.say(&held, AttemptResult::GivenBack).await.expect("it counts");
    assert_eq!(waiting.await.expect("no panic").attempt, 1);
}

/// The same token twice in one call is one report and one heartbeat.
#[tokio::test]
async fn a_token_twice_in_one_call_is_one() {
    let flow = Fixture::with("[{name: a}]").await;
    let task = flow.task().await;
    let step = flow.next().await;
    let alive = || reveille_flow::Renewal { token: step.token, lease: Duration::from_secs(60), checkpoint: None };
    assert_eq!(flow.heartbeat(vec![alive(), alive()]).await.expect("an answer"), [Ok(()), Ok(())]);
    let ended = || reveille_flow::StepReport { token: step.token, result: AttemptResult::Complete(json!(1).into()) };
    let outcomes = flow.report(vec![ended(), ended()]).await.expect("an answer");
    assert!(outcomes.iter().all(|outcome| outcome.as_ref().is_ok_and(|outcome| outcome.step == StepState::Complete)));
    assert_eq!(flow.attempts(task).await, [(1, "complete".to_owned())]);
}

/// Waiting claims without a step poll once; neither the wait nor further waiters cause more statements.
#[tokio::test]
async fn waiting_claims_send_no_statements() {
    let flow = Fixture::with("[{name: a}, {name: b, dependencies: [a]}]").await;
    // Every group polls once when the listener connects.
    reveille_pg::testing::eventually("it hears", async || flow.health().is_connected()).await;
    flow.task().await;
    let a = flow.next().await;
    let waiting = flow.waiting(&["b"]).await;
    let polls = flow.claims().polls;
    let worker = ClaimRequest { steps: Some(vec!["b".to_owned()]), ..worker() };
    let beside = flow.claim(&worker, 1, Some(Instant::now() + Duration::from_millis(500))).await.expect("a claim");
    assert!(beside.is_empty());
    assert_eq!(flow.claims().polls, polls);
    flow.complete(&a, json!(1)).await;
    assert_eq!(waiting.await.expect("no panic").name, "b");
}

/// A claim whose response is lost must not keep its steps until the lease ends: the next poll releases them, uncharged.
/// The connection is cut when the response comes; the lease is longer than the test.
#[tokio::test]
async fn an_unanswered_claim_delays_no_other_worker() {
    let flow = Fixture::with("[{name: a}]").await;
    flow.task().await;
    let proxy = reveille_pg::testing::Proxy::start(&flow.db).await;
    let database = reveille_pg::Database::connect_lazy(proxy.url(), reveille_pg::Options::default()).expect("a pool");
    let there = reveille_flow::Flow::start(&database, flow.db.schema(), reveille_flow::Options::default());
    let cut = proxy.cut_reply_to("unanswered");
    let request = ClaimRequest { name: "unanswered".to_owned(), ..worker() };
    let claimed = there.claim(&request, 1, Some(Instant::now() + PATIENCE)).await.expect("a claim");
    cut.happened().await;
    assert_eq!(claimed.first().map(|step| step.attempt), Some(1));
}

/// A claim with so many namespaces and step names that they are not registered one by one is woken, too.
/// It waits before there is a step, and the engine's own polls are too late.
#[tokio::test]
async fn a_claim_with_many_names_is_woken() {
    let flow = Fixture::with("[{name: a}]").await;
    let names = |own: &str| (0..200).map(|number| format!("{own}{number}")).chain([own.to_owned()]).collect();
    let wide = ClaimRequest { namespaces: names(NAMESPACE), steps: Some(names("a")), ..worker() };
    assert!(flow.claim(&wide, 1, None).await.expect("a claim").is_empty());
    let waiting = flow.flow.clone();
    let waiting = tokio::spawn(async move { waiting.claim(&wide, 1, Some(Instant::now() + PATIENCE)).await });
    eventually("it waits", async || flow.health().consumers.iter().any(|one| one.waiters > 0 && &*one.name == "steps"))
        .await;
    flow.task().await;
    assert_eq!(waiting.await.expect("no panic").expect("a claim").remove(0).name, "a");
}

/// In one poll every claim gets steps of its own names with its own lease, also from several step queues.
/// The statement is called directly, because a test cannot control which claims share a poll.
#[tokio::test]
async fn each_claim_in_a_poll_has_its_own_names_and_lease() {
    let flow = Fixture::with("[{name: a}, {name: b}]").await;
    flow.task().await;
    flow.task().await;
    let (names, leases) = (["first", "second"], [10_000_i64, 20_000]);
    let sql = flow.db.schema().sql(
        "select c.waiter, c.lease_ms, c.task_id, c.ordinal \
         from {schema}.claim_steps(array[$1], '{a, b}', '{}', '{}', '{}', 1, array[2, 1], $2, $3, false) c where c.task_id is not null",
    );
    let claim = sqlx::query_as(&sql).bind(NAMESPACE).bind(names).bind(leases);
    let pool = flow.db.database().pool();
    let claimed: Vec<(i32, i64, Uuid, i32)> = claim.fetch_all(pool).await.expect("a claim");
    assert_eq!(
        claimed.iter().map(|step| step.0).collect::<Vec<_>>(),
        [0, 1, 0],
        "each gets one before any gets a second"
    );
    assert_ne!(claimed[0].3, claimed[1].3, "of two step queues");
    let sql = flow.db.schema().sql(
        "select s.worker, (extract(epoch from s.due_at - s.since) * 1000)::bigint from {schema}.step s \
         where s.task_id = $1 and s.ordinal = $2",
    );
    for (waiter, lease_ms, task, ordinal) in claimed {
        let of: (String, i64) = sqlx::query_as(&sql).bind(task).bind(ordinal).fetch_one(pool).await.expect("a step");
        let (name, lease) = (names[waiter as usize], leases[waiter as usize]);
        assert_eq!((lease_ms, of.0.as_str(), of.1), (lease, name, lease));
    }
}
