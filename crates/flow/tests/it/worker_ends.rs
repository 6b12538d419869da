//! Workers of the SDK that stop, die, or lose their steps.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use reveille_flow::{Failure, Flow, Options, Step};
use reveille_pg::Database;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::fixture::{Fixture, NAMESPACE, PATIENCE};
use crate::workers::{Dropped, stopped};

/// A worker that stalls past its lease loses its step, and its late report is rejected: the effect in the database is
/// that of the next worker, once. The slow worker is a runtime of one thread, which its handler blocks, so that it
/// sends no heartbeat. Another completes the step; only then the first continues.
#[tokio::test]
async fn a_stalled_sdk_worker_is_rejected() {
    let flow = Fixture::with("[{name: a}]").await;
    let task = flow.task().await;
    let (begun, has_begun) = std::sync::mpsc::channel();
    let (go_on, goes_on) = mpsc::channel::<()>();
    let (url, schema) = (flow.db.url().to_owned(), flow.db.schema().clone());
    let slow = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let db = Database::connect(&url, reveille_pg::Options::default()).await.expect("connect");
            let flow = Flow::start(&db, &schema, Options::default());
            let goes_on = Arc::new(Mutex::new(goes_on));
            let worker = flow.worker("slow").namespace(NAMESPACE).lease(Duration::from_millis(300));
            let worker = worker.handle("a", move |_: Step<Value>| {
                let (begun, goes_on) = (begun.clone(), goes_on.clone());
                async move {
                    begun.send(()).expect("the receiver waits");
                    let goes_on = goes_on.lock().expect("one at a time");
                    goes_on.recv_timeout(PATIENCE).map_err(|error| Failure::new(error.to_string()))?;
                    Ok("slow")
                }
            });
            let worker = worker.start().expect("a worker");
            reveille_pg::testing::eventually("the step is lost", async || worker.counts().lost == 1).await;
            stopped(worker).await
        })
    });
    let has_begun = tokio::task::spawn_blocking(move || has_begun.recv_timeout(PATIENCE)).await.expect("no panic");
    has_begun.expect("the slow one begins");
    let quick = flow.worker("quick").namespace(NAMESPACE).handle("a", async |_: Step<Value>| Ok("quick"));
    let quick = quick.start().expect("a worker");
    flow.ends(task, "complete").await;
    go_on.send(()).expect("it waits");
    let slow = tokio::task::spawn_blocking(move || slow.join()).await.expect("no panic").expect("no panic");
    assert_eq!((slow.completed, slow.lost), (0, 1));
    assert_eq!(stopped(quick).await.completed, 1);
    assert_eq!(flow.attempts(task).await, [(1, "lease_ended".to_owned()), (2, "complete".to_owned())]);
    assert_eq!(flow.last_word(task).await, json!("quick"));
}

/// A handler that has lost its step is dropped, without a report.
/// The fence is changed as a claim would; a guard in the handler counts that it was dropped.
#[tokio::test]
async fn a_handler_that_lost_its_step_is_dropped() {
    let flow = Fixture::with("[{name: a}]").await;
    let task = flow.task().await;
    let dropped = Arc::new(Dropped::default());
    let (guard, begun) = (dropped.clone(), Arc::new(Notify::new()));
    let begins = begun.clone();
    let worker = flow.worker("w").namespace(NAMESPACE).lease(Duration::from_secs(3));
    let worker = worker.handle("a", move |step: Step<Value>| {
        begins.notify_one();
        let guard = guard.guard();
        async move {
            let (_guard, _step) = (guard, step);
            std::future::pending::<Result<(), Failure>>().await
        }
    });
    let worker = worker.start().expect("a worker");
    tokio::time::timeout(PATIENCE, begun.notified()).await.expect("it begins");
    assert_eq!(worker.counts().running, 1);
    let sql = flow
        .db
        .schema()
        .sql("update {schema}.step set fence = fence + 1, due_at = now() + interval '1 h' where task_id = $1");
    sqlx::query(&sql).bind(task).execute(flow.db.database().pool()).await.expect("another claim");
    reveille_pg::testing::eventually("the handler is dropped", async || dropped.count() == 1).await;
    let counts = stopped(worker).await;
    assert_eq!((counts.lost, counts.completed, counts.failed, counts.given_back, counts.running), (1, 0, 0, 0, 0));
    assert_eq!(flow.attempts(task).await, []);
}

/// A handler that takes longer than the lease keeps its step: its worker sends heartbeats.
/// It waits until the end of its lease has moved.
#[tokio::test]
async fn a_step_is_kept_beyond_its_lease() {
    let flow = Fixture::with("[{name: a}]").await;
    let task = flow.task().await;
    let ready = Arc::new(Notify::new());
    let go_on = ready.clone();
    let worker = flow.worker("w").namespace(NAMESPACE).lease(Duration::from_secs(3));
    let worker = worker.handle("a", move |_: Step<Value>| {
        let go_on = go_on.clone();
        async move {
            go_on.notified().await;
            Ok(())
        }
    });
    let worker = worker.start().expect("a worker");
    let sql = flow.db.schema().sql(
        "select s.state = 'in_progress' and s.due_at > s.since + interval '3.5 s' from {schema}.step s where s.task_id = $1",
    );
    reveille_pg::testing::eventually("the lease lasts", async || {
        sqlx::query_scalar(&sql).bind(task).fetch_one(flow.db.database().pool()).await.expect("a step")
    })
    .await;
    ready.notify_one();
    flow.ends(task, "complete").await;
    assert_eq!(flow.attempts(task).await, [(1, "complete".to_owned())]);
    stopped(worker).await;
}

/// A worker that stops claims no more, lets running handlers end within its grace period, and releases the rest,
/// uncharged.
/// One handler ends when the worker stops, the other never would; a third step comes when no worker claims any more.
#[tokio::test]
async fn a_worker_that_stops_releases_unfinished_steps() {
    let flow = Fixture::with("[{name: quick}, {name: never}]").await;
    let task = flow.task().await;
    let dropped = Arc::new(Dropped::default());
    let guard = dropped.clone();
    let worker = flow.worker("w").namespace(NAMESPACE).handle("quick", async |step: Step<Value>| {
        step.signal().stopping().await;
        Ok(step.signal().is_stopping())
    });
    let worker = worker.handle("never", move |_: Step<Value>| {
        let guard = guard.guard();
        async move {
            let _guard = guard;
            std::future::pending::<Result<(), Failure>>().await
        }
    });
    let worker = worker.start().expect("a worker");
    reveille_pg::testing::eventually("both are at work", async || worker.counts().running == 2).await;
    let stopping = tokio::spawn(worker.stop(Duration::from_secs(2)));
    reveille_pg::testing::eventually("one has ended", async || !flow.attempts(task).await.is_empty()).await;
    let later = flow.task().await;
    let counts = tokio::time::timeout(PATIENCE, stopping).await.expect("it stops").expect("no panic");
    assert_eq!((counts.claimed, counts.completed, counts.given_back, counts.running), (2, 1, 1, 0));
    assert_eq!(dropped.count(), 1);
    assert_eq!(flow.attempts(task).await, [(1, "complete".to_owned()), (1, "given_back".to_owned())]);
    assert_eq!(flow.attempts(later).await, []);
    let again = flow.now(9).await;
    let never = again.iter().find(|step| step.token.task == task).expect("it was released");
    assert_eq!((again.len(), never.name.as_str(), never.attempt), (3, "never", 1));
}

/// A handler that blocks its thread cannot be dropped: its worker still releases the step, and stops.
/// It blocks until the test lets it continue, which is after the stop.
#[tokio::test(flavor = "multi_thread")]
async fn a_blocking_handler_does_not_delay_a_stop() {
    let flow = Fixture::with("[{name: a}]").await;
    let task = flow.task().await;
    let (go_on, goes_on) = mpsc::channel::<()>();
    let goes_on = Arc::new(Mutex::new(goes_on));
    let worker = flow.worker("w").namespace(NAMESPACE).handle("a", move |_: Step<Value>| {
        let goes_on = goes_on.clone();
        async move {
            // Without `block_in_place` the blocked thread may be the one that drives the clock.
            let blocked = || goes_on.lock().expect("one at a time").recv_timeout(PATIENCE);
            let _ = tokio::task::block_in_place(blocked);
            Ok(())
        }
    });
    let worker = worker.start().expect("a worker");
    reveille_pg::testing::eventually("it is at work", async || worker.counts().running == 1).await;
    let counts = tokio::time::timeout(PATIENCE, worker.stop(Duration::ZERO)).await.expect("it stops");
    assert_eq!((counts.given_back, counts.completed), (1, 0));
    go_on.send(()).expect("it waits");
    assert_eq!(flow.next().await.attempt, 1);
    assert_eq!(flow.attempts(task).await, [(1, "given_back".to_owned())]);
}

/// A worker that is dropped releases its steps, and the next worker starts at the last checkpoint.
/// The first saves three checkpoints and waits for ever; its lease would last an hour.
#[tokio::test]
async fn the_next_worker_starts_at_the_checkpoint() {
    let flow = Fixture::with("[{name: a}]").await;
    let task = flow.task().await;
    let saved = Arc::new(Notify::new());
    let says = saved.clone();
    let worker = flow.worker("first").namespace(NAMESPACE).lease(Duration::from_secs(3_600));
    let worker = worker.handle("a", move |step: Step<Value>| {
        let says = says.clone();
        async move {
            for row in 1..=3 {
                step.save_checkpoint(&json!({"row": row})).await?;
            }
            says.notify_one();
            std::future::pending::<Result<(), Failure>>().await
        }
    });
    let first = worker.start().expect("a worker");
    tokio::time::timeout(PATIENCE, saved.notified()).await.expect("it saves");
    drop(first);
    let second = flow.worker("second").namespace(NAMESPACE).handle("a", async |step: Step<Value>| {
        Ok(json!({"from": step.checkpoint::<Value>()?, "attempt": step.attempt()}))
    });
    let second = second.start().expect("a worker");
    flow.ends(task, "complete").await;
    assert_eq!(flow.last_word(task).await, json!({"from": {"row": 3}, "attempt": 1}));
    stopped(second).await;
}

/// Work that a handler has moved to a thread is notified when its attempt is over.
#[tokio::test]
async fn a_thread_is_notified_that_its_attempt_is_over() {
    let flow = Fixture::with("[{name: a}]").await;
    flow.task().await;
    let (over, is_over) = tokio::sync::oneshot::channel();
    let over = Arc::new(Mutex::new(Some(over)));
    let worker = flow.worker("w").namespace(NAMESPACE).handle("a", move |step: Step<Value>| {
        let (signal, over) = (step.signal(), over.clone());
        async move {
            let thread = tokio::task::spawn_blocking(move || {
                while !signal.is_over() {
                    std::thread::yield_now();
                }
                let over = over.lock().expect("one at a time").take();
                over.expect("once").send(()).expect("the receiver waits");
            });
            Ok(thread.await?)
        }
    });
    let worker = worker.start().expect("a worker");
    reveille_pg::testing::eventually("it is at work", async || worker.counts().running == 1).await;
    drop(worker);
    tokio::time::timeout(PATIENCE, is_over).await.expect("in time").expect("a message");
}
