//! Waiting for tasks, in this and in another process.

use std::time::Duration;

use futures_util::future::join_all;
use reveille_flow::{Error, Flow, TaskProgress, TaskState, Transition};
use reveille_pg::testing::eventually;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use uuid::Uuid;

use crate::fixture::{Elsewhere, Fixture, PATIENCE, submission};

fn patience() -> Instant {
    Instant::now() + PATIENCE
}

/// A running wait for the end of a task.
async fn waiting(flow: &Flow, task: Uuid) -> JoinHandle<TaskState> {
    let before = waiters(flow);
    let waiter = flow.clone();
    let waiting = tokio::spawn(async move {
        let ended = waiter.wait(task, patience()).await.expect("an answer");
        ended.expect("it has ended").summary.status
    });
    eventually("a waiter", async || waiters(flow) > before).await;
    waiting
}

fn waiters(flow: &Flow) -> usize {
    let consumers = flow.health().consumers;
    consumers.iter().filter(|consumer| &*consumer.name == "watch").map(|consumer| consumer.waiters).sum()
}

/// A wait ends with its task, here or in another process, without polls: the fallback is minutes away.
#[tokio::test]
async fn a_wait_ends_with_the_task() {
    let flow = Fixture::with("[{name: a}, {name: b, dependencies: [a]}]").await;
    let elsewhere = Elsewhere::start(&flow.db).await;
    for settler in [&flow.flow, &elsewhere.flow] {
        let task = flow.task().await;
        let here = waiting(&flow, task).await;
        let there = waiting(&elsewhere.flow, task).await;
        for _ in 0..2 {
            let step = settler.claim(&crate::fixture::worker(), 1, Some(patience())).await.expect("a claim").remove(0);
            let said = reveille_flow::AttemptResult::Complete(json!(1).into());
            let mut outcomes = settler
                .report(vec![reveille_flow::StepReport { token: step.token, result: said }])
                .await
                .expect("an answer");
            outcomes.remove(0).expect("it counts");
        }
        assert_eq!(here.await.expect("no panic"), TaskState::Complete);
        assert_eq!(there.await.expect("no panic"), TaskState::Complete);
    }
}

/// A wait for an ended task is answered at once, one for an open task at its deadline, and one for an unknown task is
/// rejected.
#[tokio::test]
async fn a_wait_has_the_right_answer() {
    let flow = Fixture::with("[{name: a}]").await;
    let task = flow.task().await;
    let soon = Instant::now() + Duration::from_millis(50);
    assert!(flow.wait(task, soon).await.expect("an answer").is_none());
    let past = Instant::now() - Duration::from_millis(1);
    assert!(flow.wait(task, past).await.expect("an answer").is_none());
    flow.waves().await;
    let ended = flow.wait(task, past).await.expect("an answer").expect("it has ended");
    assert_eq!((ended.summary.status, ended.steps.len()), (TaskState::Complete, 1));
    let unknown = Uuid::now_v7();
    let refused = flow.wait(unknown, patience()).await.expect_err("there is none");
    assert!(matches!(refused, Error::NoTask { task } if task == unknown));
    let refused = flow.watch(unknown, None, patience()).await.expect_err("there is none");
    assert!(matches!(refused, Error::NoTask { task } if task == unknown));
}

/// The mark of a wait is written once for all waiters, and not after the task has ended; it lasts longer than a wait
/// relies on it.
#[tokio::test]
async fn a_mark_is_written_once() {
    let flow = Fixture::with("[{name: a}]").await;
    let task = flow.task().await;
    let marked = async || {
        let sql = flow.db.schema().sql(
            "select t.xmin::text, coalesce(extract(epoch from t.awaited_until - now()), 0)::float8 from {schema}.task t where t.id = $1",
        );
        let row: (String, f64) =
            sqlx::query_as(&sql).bind(task).fetch_one(flow.db.database().pool()).await.expect("a task");
        row
    };
    assert_eq!(marked().await.1, 0.0);
    let soon = || Instant::now() + Duration::from_millis(1);
    flow.wait(task, soon()).await.expect("an answer");
    let (version, lasts) = marked().await;
    assert!(lasts > 100.0, "{lasts}");
    flow.wait(task, soon()).await.expect("an answer");
    assert_eq!(marked().await.0, version, "no write");
    flow.waves().await;
    let version = marked().await.0;
    flow.wait(task, soon()).await.expect("an answer");
    assert_eq!(marked().await.0, version, "no write");
}

/// A task that is not watched causes no notification, a watched one one for every change, and one with a wait for its
/// end one.
/// Another connection listens to the channel.
#[tokio::test]
async fn a_task_without_watchers_sends_no_notification() {
    let flow = Fixture::with("[{name: a}, {name: b, dependencies: [a]}]").await;
    let channel = reveille_wake::channel_name(flow.db.schema().name(), "flow_watch");
    let mut listener = sqlx::postgres::PgListener::connect(flow.db.url()).await.expect("a listener");
    listener.listen(&channel).await.expect("it listens");
    let (unwatched, watched, awaited) = (flow.task().await, flow.task().await, flow.task().await);
    let soon = || Instant::now() + Duration::from_millis(1);
    flow.watch(watched, None, soon()).await.expect("an answer");
    flow.wait(awaited, soon()).await.expect("an answer");
    for _ in 0..2 {
        for step in flow.now(3).await {
            flow.complete(&step, json!(1)).await;
        }
    }
    sqlx::query("select pg_notify($1, 'end')")
        .bind(&channel)
        .execute(flow.db.database().pool())
        .await
        .expect("the end");
    let mut notified = Vec::new();
    loop {
        let payload = listener.recv().await.expect("a notification").payload().to_owned();
        if payload == "end" {
            break;
        }
        notified.push(payload);
    }
    assert!(!notified.contains(&unwatched.to_string()));
    let count = |task: uuid::Uuid| notified.iter().filter(|payload| **payload == task.to_string()).count();
    assert_eq!((count(watched), count(awaited)), (4, 1), "two claims and two ends; the last end");
}

async fn awaited(flow: &Fixture, task: Uuid, sql: &str) -> bool {
    let sql = flow.db.schema().sql(sql);
    let rows = sqlx::query(&sql).bind(task).fetch_all(flow.db.database().pool()).await.expect("an answer");
    !rows.is_empty()
}

/// A mark that a database crash has lost is written again as soon as the waiter's listener reconnects, and the end of
/// the task notifies.
#[tokio::test]
async fn a_lost_mark_is_written_again() {
    const MARKED: &str = "select from {schema}.task t where t.id = $1 and t.awaited_until > now()";
    let flow = Fixture::with("[{name: a}]").await;
    let elsewhere = Elsewhere::start(&flow.db).await;
    let task = flow.task().await;
    let there = waiting(&elsewhere.flow, task).await;
    eventually("it is marked", async || awaited(&flow, task, MARKED).await).await;
    awaited(&flow, task, "update {schema}.task t set awaited_until = null where t.id = $1").await;
    elsewhere.way.cut();
    eventually("it is marked again", async || awaited(&flow, task, MARKED).await).await;
    flow.waves().await;
    assert_eq!(there.await.expect("no panic"), TaskState::Complete);
}

/// A lock on tasks delays only the waits for them; when it is released, their end is reported.
/// There are more of them than one poll reads.
#[tokio::test]
async fn a_locked_task_delays_only_its_own_waits() {
    const HELD: usize = 10;
    let flow = Fixture::with("[{name: a}]").await;
    let tasks = join_all((0..HELD).map(|_| flow.task())).await;
    let mut holder = flow.db.database().pool().begin().await.expect("a transaction");
    let hold = flow.db.schema().sql("select from {schema}.task t where t.id = any ($1) for update");
    sqlx::query(&hold).bind(&tasks).execute(&mut *holder).await.expect("they are locked");
    let mut waits = Vec::new();
    for task in &tasks {
        waits.push(waiting(&flow, *task).await);
    }
    let other = flow.submit(submission("t", json!({}))).await.expect("a task").task_uuid;
    let others = waiting(&flow, other).await;
    let steps = flow.now(HELD + 1).await;
    let step = steps.iter().find(|step| step.token.task == other).expect("its step");
    flow.complete(step, json!(1)).await;
    assert_eq!(others.await.expect("no panic"), TaskState::Complete);
    let end =
        flow.db.schema().sql("update {schema}.task t set state = 'complete', ended_at = now() where t.id = any ($1)");
    sqlx::query(&end).bind(&tasks).execute(&mut *holder).await.expect("they end");
    holder.commit().await.expect("released");
    for wait in waits {
        assert_eq!(wait.await.expect("no panic"), TaskState::Complete);
    }
}

fn names(changes: &TaskProgress) -> Vec<String> {
    let name = |one: &Transition| format!("{}:{}", one.step.as_deref().unwrap_or("task"), one.to);
    changes.transitions.iter().map(name).collect()
}

/// Every transition of a task reaches its watcher once, in order, from this and another process; and the last one is
/// marked as the end.
#[tokio::test]
async fn every_transition_is_reported() {
    let flow = Fixture::with("[{name: a}, {name: b, dependencies: [a]}]").await;
    let elsewhere = Elsewhere::start(&flow.db).await;
    let task = flow.task().await;
    let changes = elsewhere.flow.watch(task, None, patience()).await.expect("changes");
    let begun = ["task:pending", "task:initializing", "a:pending", "b:pending", "task:enqueuing_steps", "a:enqueued"];
    assert_eq!((names(&changes), changes.over), (begun.map(str::to_owned).to_vec(), false));
    let mut seen = changes.transitions;
    let quiet = elsewhere.flow.watch(task, seen.last().map(|one| one.id), Instant::now() + Duration::from_millis(400));
    assert_eq!(quiet.await.expect("changes"), TaskProgress { transitions: Vec::new(), over: false });
    let mut held = None;
    for position in 0..4 {
        let after = seen.last().map(|one| one.id);
        let watcher = elsewhere.flow.clone();
        let watching = tokio::spawn(async move { watcher.watch(task, after, patience()).await.expect("changes") });
        eventually("a watcher", async || waiters(&elsewhere.flow) == 1).await;
        let expected: &[&str] = match position {
            0 => &["a:in_progress", "task:steps_in_process"],
            1 => &[
                "a:enqueued_for_orchestration",
                "a:complete",
                "task:evaluating_results",
                "task:enqueuing_steps",
                "b:enqueued",
            ],
            2 => &["b:in_progress", "task:steps_in_process"],
            _ => &["b:enqueued_for_orchestration", "b:complete", "task:evaluating_results", "task:complete"],
        };
        if position % 2 == 0 {
            held = Some(flow.next().await);
        } else {
            flow.complete(&held.take().expect("a step"), json!(1)).await;
        }
        let changes = watching.await.expect("no panic");
        assert_eq!(
            (names(&changes), changes.over),
            (expected.iter().map(|one| (*one).to_owned()).collect(), position == 3)
        );
        seen.extend(changes.transitions);
    }
    assert_eq!(seen, flow.transitions(task).await.expect("an answer").expect("a task"));
    let over = flow.watch(task, seen.last().map(|one| one.id), patience()).await.expect("changes");
    assert_eq!(over, TaskProgress { transitions: Vec::new(), over: true }, "there is nothing to wait for");
    let resumed = flow.watch(task, Some(seen[3].id), patience()).await.expect("changes");
    assert_eq!(resumed.transitions, seen[4..]);
}

/// A transition by time is reported, too: a step that waits for a retry is ready when it is due.
#[tokio::test]
async fn a_transition_by_time_is_reported() {
    let flow = Fixture::with("[{name: a, retry: {backoff_base_ms: 300, backoff: linear, jitter: 0}}]").await;
    let task = flow.task().await;
    flow.fail(&flow.next().await, true).await;
    let mut seen = flow.watch(task, None, patience()).await.expect("changes").transitions;
    while seen.iter().filter(|one| one.step.is_some() && one.to == "enqueued").count() < 2 {
        let changes = flow.watch(task, seen.last().map(|one| one.id), patience()).await.expect("changes");
        assert!(!changes.transitions.is_empty(), "no transition in time");
        seen.extend(changes.transitions);
    }
    assert_eq!(seen.last().map(|one| (one.to, one.step.as_deref())), Some(("enqueued", Some("a"))));
}

/// However a wait and the end of its task coincide, the wait ends: the mark is written before the task is read, and an
/// end after the mark notifies.
/// Many tasks are ended by another process at the time a wait begins; a wait that missed it would last until its
/// deadline.
#[tokio::test]
async fn a_wait_that_begins_at_the_end_is_not_missed() {
    let flow = Fixture::with("[{name: a}]").await;
    let elsewhere = Elsewhere::start(&flow.db).await;
    for round in 0..40 {
        let task = flow.task().await;
        let step = flow.next().await;
        let reported = async {
            tokio::time::sleep(Duration::from_micros(100 * round)).await;
            let said = reveille_flow::AttemptResult::Complete(json!(1).into());
            elsewhere
                .flow
                .report(vec![reveille_flow::StepReport { token: step.token, result: said }])
                .await
                .expect("an answer")
        };
        let soon = Instant::now() + Duration::from_secs(20);
        let (ended, watched, outcomes) = tokio::join!(flow.wait(task, soon), last_of(&flow, task), reported);
        outcomes[0].as_ref().expect("it counts");
        assert_eq!(ended.expect("an answer").expect("it has ended").summary.status, TaskState::Complete);
        assert_eq!(watched, Some("complete"));
        assert!(Instant::now() < soon);
    }
}

/// The last transition of a task, by watching it until its end.
async fn last_of(flow: &Flow, task: Uuid) -> Option<&'static str> {
    let mut last: Option<Transition> = None;
    loop {
        let changes = flow.watch(task, last.as_ref().map(|one| one.id), patience()).await.expect("changes");
        last = changes.transitions.last().cloned().or(last);
        if changes.over {
            return last.map(|one| one.to);
        }
        assert!(!changes.transitions.is_empty(), "no transition in time");
    }
}
