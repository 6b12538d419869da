//! Claiming: who gets what, when, and what a lost claim is worth.

use std::time::Duration;

use reveille_flow::{AttemptResult, ClaimRequest, Refused, StepState};
use reveille_pg::testing::eventually;
use serde_json::json;
use tokio::time::Instant;
use uuid::Uuid;

use crate::fixture::{Fixture, NAMESPACE, PATIENCE, failure, submission, worker};

/// A worker that waits is woken by a submission, and by what a step makes ready.
/// It waits before there is anything, with a patience that polling alone would not meet.
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

/// A worker gets the steps it names, in the namespaces it names, and nobody else's.
#[tokio::test]
async fn a_worker_gets_what_it_names() {
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

/// A lease that ends makes its step due again with the attempt counted; whoever comes late with the old claim is refused and changes nothing.
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

/// What was said is answered the same when it is said again, and counts once.
#[tokio::test]
async fn what_is_said_twice_counts_once() {
    let flow = Fixture::with("[{name: a}, {name: b, dependencies: [a]}]").await;
    let task = flow.task().await;
    let a = flow.next().await;
    for repeated in [false, true] {
        let settled = flow.complete(&a, json!(1)).await;
        assert_eq!((settled.step, settled.repeated), (StepState::Complete, repeated));
    }
    assert_eq!(flow.standing(task).await, ("open".to_owned(), 1));
    assert_eq!(flow.run().await, ["b"]);
}

/// A claim that has ended is refused another report: only the same one again is a repetition.
/// Each report ends a claim and is repeated; then each other one is sent with the token of that claim.
#[tokio::test]
async fn another_report_after_the_end_is_lost() {
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
        // A failure is stored as the one for good if that was its last attempt.
        for other in (0..5).filter(|other| *other != first && (*other, first) != (1, 2)) {
            assert_eq!(flow.say(&step, said(other)).await, Err(Refused::Lost), "{other} after {first}");
        }
        flow.run().await;
    }
}

/// A worker that stops gives its steps back at once, uncharged; one that yields leaves its checkpoint for whoever goes on.
#[tokio::test]
async fn what_is_given_back_is_not_charged() {
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

/// A claim that nobody waits for any more is given back.
/// Its future is dropped while the claim is under way, and another worker gets the step long before its lease would end.
#[tokio::test]
async fn a_dropped_claim_delays_nobody() {
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

/// Many workers at once never have the same step.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_has_what_another_has() {
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

/// A worker that says it is alive keeps its step beyond its lease; one that has lost it is told so.
#[tokio::test]
async fn who_is_alive_keeps_its_step() {
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

/// However often a worker says that it is alive, an attempt ends with the step's timeout.
#[tokio::test]
async fn a_timeout_bounds_what_is_alive() {
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

/// A worker that dies with the last attempt is not waited for: the engine ends the step and its task when the lease ends.
/// No worker claims anything any more.
#[tokio::test]
async fn a_last_attempt_that_is_lost_ends_the_task() {
    let flow = Fixture::with("[{name: a, retry: {max_attempts: 1}}]").await;
    let _orchestrator = flow.orchestrate();
    let task = flow.task().await;
    let short = ClaimRequest { lease: Duration::from_millis(200), ..worker() };
    let lost = flow.claim(&short, 1, None).await.expect("a claim").pop().expect("a step");
    reveille_pg::testing::eventually("the task ends", async || flow.standing(task).await.0 == "error").await;
    assert_eq!(flow.say(&lost, AttemptResult::Complete(json!("late").into())).await, Err(Refused::Lost));
    assert_eq!(flow.attempts(task).await, [(1, "lease_ended".to_owned())]);
}

/// A step that is given back wakes who waits for it by its name, whoever had it.
#[tokio::test]
async fn what_is_given_back_wakes_other_groups() {
    let flow = Fixture::with("[{name: a}]").await;
    flow.task().await;
    let held = flow.next().await;
    let waiting = flow.waiting(&["a"]).await;
    flow.say(&held, AttemptResult::GivenBack).await.expect("it counts");
    assert_eq!(waiting.await.expect("no panic").attempt, 1);
}

/// The same token twice in one call is one word and one sign of life.
#[tokio::test]
async fn a_token_twice_in_one_call_is_one() {
    let flow = Fixture::with("[{name: a}]").await;
    let task = flow.task().await;
    let step = flow.next().await;
    let alive = || reveille_flow::Renewal { token: step.token, lease: Duration::from_secs(60), checkpoint: None };
    assert_eq!(flow.heartbeat(vec![alive(), alive()]).await.expect("an answer"), [Ok(()), Ok(())]);
    let ended = || reveille_flow::StepReport { token: step.token, result: AttemptResult::Complete(json!(1).into()) };
    let settled = flow.report(vec![ended(), ended()]).await.expect("an answer");
    assert!(settled.iter().all(|settled| settled.as_ref().is_ok_and(|settled| settled.step == StepState::Complete)));
    assert_eq!(flow.attempts(task).await, [(1, "complete".to_owned())]);
}

/// Whoever waits where there is nothing asks once, and then nothing: neither while it waits nor when others come to wait beside it.
#[tokio::test]
async fn nobody_asks_while_there_is_nothing() {
    let flow = Fixture::with("[{name: a}, {name: b, dependencies: [a]}]").await;
    // From when it hears, everybody looks once.
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

/// A claim whose answer is never heard must not keep its steps until its lease ends: the next look gives them back, uncharged.
/// The connection is cut when the answer comes; the lease is longer than the test.
#[tokio::test]
async fn a_claim_that_nobody_heard_of_delays_nobody() {
    let flow = Fixture::with("[{name: a}]").await;
    flow.task().await;
    let proxy = reveille_pg::testing::Proxy::start(&flow.db).await;
    let database = reveille_pg::Database::connect_lazy(proxy.url(), reveille_pg::Options::default()).expect("a pool");
    let there = reveille_flow::Flow::start(&database, flow.db.schema(), reveille_flow::Options::default());
    let cut = proxy.cut_reply_to("nobody hears");
    let deaf = ClaimRequest { name: "nobody hears".to_owned(), ..worker() };
    let claimed = there.claim(&deaf, 1, Some(Instant::now() + PATIENCE)).await.expect("a claim");
    cut.happened().await;
    assert_eq!(claimed.first().map(|step| step.attempt), Some(1));
}

/// Whoever names so many namespaces and steps that they cannot be told apart one by one is woken all the same.
/// It waits before there is anything, and the engine's own polls are far off.
#[tokio::test]
async fn who_names_too_much_is_woken_all_the_same() {
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

/// In one look everybody gets steps under their own name and for their own time, also where they come from several lanes.
/// The statement is called by hand: which claims travel together is not for a test to say.
#[tokio::test]
async fn everybody_in_a_look_has_their_own_name_and_time() {
    let flow = Fixture::with("[{name: a}, {name: b}]").await;
    flow.task().await;
    flow.task().await;
    let (names, leases) = (["first", "second"], [10_000_i64, 20_000]);
    let sql = flow.db.schema().sql(
        "select c.waiter, c.lease_ms, c.task_id, c.ordinal \
         from {schema}.claim_steps(array[$1], '{a, b}', '{}', '{}', '{}', 1, array[2, 1], $2, $3) c where c.task_id is not null",
    );
    let claim = sqlx::query_as(&sql).bind(NAMESPACE).bind(names).bind(leases);
    let pool = flow.db.database().pool();
    let claimed: Vec<(i32, i64, Uuid, i32)> = claim.fetch_all(pool).await.expect("a claim");
    assert_eq!(
        claimed.iter().map(|step| step.0).collect::<Vec<_>>(),
        [0, 1, 0],
        "each gets one before any gets a second"
    );
    assert_ne!(claimed[0].3, claimed[1].3, "of two lanes");
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
