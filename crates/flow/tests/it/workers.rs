//! Workers of the SDK, on graphs of every kind: the inputs, results and errors of handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reveille_flow::{Decision, Failure, Flow, Handled, Handler, Step, Worker, WorkerCounts};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Barrier;
use uuid::Uuid;

use crate::fixture::{Fixture, NAMESPACE, PATIENCE, submission};

/// The context of the tasks.
#[derive(Deserialize)]
pub(crate) struct Context {
    a: i64,
}

impl Fixture {
    /// Waits until a task is in this state.
    pub(crate) async fn ends(&self, task: Uuid, state: &str) {
        let what = format!("the task ends as {state}");
        reveille_pg::testing::eventually(&what, async || self.state_and_open_steps(task).await.0 == state).await;
    }

    /// The result, or the error, of the last attempt of a step without parents.
    pub(crate) async fn last_word(&self, task: Uuid) -> Value {
        let sql = self.db.schema().sql(
            "select coalesce(a.result, a.error) from {schema}.attempt a where a.task_id = $1 order by a.ended_at desc, a.fence desc limit 1",
        );
        let text: String =
            sqlx::query_scalar(&sql).bind(task).fetch_one(self.db.database().pool()).await.expect("an attempt");
        serde_json::from_str(&text).expect("JSON")
    }
}

/// Stops an idle worker, and returns its counts.
pub(crate) async fn stopped(worker: Worker) -> WorkerCounts {
    tokio::time::timeout(PATIENCE, worker.stop(PATIENCE)).await.expect("it stops")
}

/// Handlers get the context and earlier results as the types that they declare, in a chain and in a diamond.
/// Each adds; the last result is compared with the sum.
#[tokio::test]
async fn a_chain_and_a_diamond_of_typed_handlers() {
    let steps = "[{name: a}, {name: b, dependencies: [a], handler: {callable: plus, initialization: {n: 10}}},
                  {name: c, dependencies: [a], handler: {callable: plus, initialization: {n: 100}}}, {name: d, dependencies: [b, c]}]";
    let flow = Fixture::with(steps).await;
    #[derive(Deserialize)]
    struct Settings {
        n: i64,
    }
    let plus = async |step: Step<Context>| Ok(step.result::<i64>("a")? + step.initialization::<Settings>()?.n);
    let worker = flow.worker("w").namespace(NAMESPACE).handle("plus", plus);
    let worker = worker.handle("a", async |step: Step<Context>| Ok(step.context.a + 1));
    let worker = worker.handle("d", async |step: Step<Value>| {
        assert_eq!((step.name(), step.attempt(), step.max_attempts(), step.namespace()), ("d", 1, 3, NAMESPACE));
        Ok(step.result::<i64>("b")? + step.result::<i64>("c")? + step.result::<i64>("a")?)
    });
    let worker = worker.start().expect("a worker");
    let task = flow.task().await;
    flow.ends(task, "complete").await;
    assert_eq!(flow.last_word(task).await, json!(116));
    let counts = stopped(worker).await;
    assert_eq!(counts, WorkerCounts { claimed: 4, completed: 4, ..WorkerCounts::default() });
}

/// A decision chooses by a typed result, and a later step sees the chosen branch.
#[tokio::test]
async fn a_decision_chooses_its_branch() {
    let steps =
        "[{name: route, type: decision}, {name: small, dependencies: [route]}, {name: large, dependencies: [route]},
                  {name: end, type: deferred_convergence, dependencies: [small, large]}]";
    let flow = Fixture::with(steps).await;
    let route = async |step: Step<Context>| Ok(Decision::choose([if step.context.a < 10 { "small" } else { "large" }]));
    let say = async |step: Step<Context>| Ok(step.name().to_owned());
    let worker = flow.worker("w").namespace(NAMESPACE).handle("route", route).handle("small", say).handle("large", say);
    let worker = worker.handle("end", async |step: Step<Context>| {
        Ok([step.result_if_any::<String>("small")?, step.result_if_any("large")?])
    });
    let worker = worker.start().expect("a worker");
    for (a, ended) in [(1, json!(["small", null])), (99, json!([null, "large"]))] {
        let task = flow.submit(submission("t", json!({"a": a}))).await.expect("a task").task_uuid;
        flow.ends(task, "complete").await;
        assert_eq!(flow.last_word(task).await, ended);
    }
    stopped(worker).await;
}

/// A step divides itself, its parts have typed inputs, and the next step has their results in order. A batch may be
/// empty.
#[tokio::test]
async fn a_batch_is_divided_and_gathered() {
    let steps = "[{name: split, type: batchable, batch_config: {worker_template: rows}}, {name: rows, type: batch_worker, dependencies: [split]},
                  {name: sum, type: deferred_convergence, dependencies: [rows]}]";
    let flow = Fixture::with(steps).await;
    #[derive(Serialize, Deserialize)]
    struct Range {
        from: i64,
        to: i64,
    }
    let worker = flow
        .worker("w")
        .namespace(NAMESPACE)
        .handle("split", async |step: Step<Context>| {
            Decision::divide((0..step.context.a).map(|part| Range { from: part * 10, to: part * 10 + 10 }))
        })
        .handle("rows", async |step: Step<Value>| {
            let Range { from, to } = step.input()?;
            Ok((from..to).sum::<i64>())
        })
        .handle("sum", async |step: Step<Value>| step.results_of_parts::<i64>("rows"));
    let worker = worker.start().expect("a worker");
    for (parts, sums) in [(3, json!([45, 145, 245])), (0, json!([]))] {
        let task = flow.submit(submission("t", json!({"a": parts}))).await.expect("a task").task_uuid;
        flow.ends(task, "complete").await;
        assert_eq!(flow.last_word(task).await, sums);
    }
    stopped(worker).await;
}

/// A pause chosen by the handler replaces the template's, which would be an hour; the next attempt succeeds.
#[tokio::test]
async fn a_handler_is_retried_after_its_own_pause() {
    let flow = Fixture::with("[{name: a, retry: {backoff_base_ms: 3600000, max_backoff_ms: 3600000}}]").await;
    let worker = flow.worker("w").namespace(NAMESPACE).handle("a", async |step: Step<Value>| {
        if step.attempt() == 1 {
            return Err(Failure::new("not yet").of_kind("early").after(Duration::from_millis(50)));
        }
        Ok(step.attempt())
    });
    let worker = worker.start().expect("a worker");
    let task = flow.task().await;
    flow.ends(task, "complete").await;
    assert_eq!(flow.attempts(task).await, [(1, "failed".to_owned()), (2, "complete".to_owned())]);
    let counts = stopped(worker).await;
    assert_eq!((counts.claimed, counts.failed, counts.completed), (2, 1, 1));
}

/// A panic is a failure of the attempt, which is retried; concurrent handlers continue.
#[tokio::test]
async fn a_panic_is_a_failure_of_one_attempt() {
    let flow = Fixture::with("[{name: a, retry: {backoff: none}}, {name: b}]").await;
    let both = Arc::new(Barrier::new(2));
    let beside = both.clone();
    let worker = flow.worker("w").namespace(NAMESPACE).handle("a", move |step: Step<Value>| {
        let both = both.clone();
        async move {
            if step.attempt() == 1 {
                both.wait().await;
                panic!("no {}", "luck");
            }
            Ok(())
        }
    });
    let worker = worker.handle("b", move |_: Step<Value>| {
        let both = beside.clone();
        async move {
            both.wait().await;
            tokio::task::yield_now().await;
            Ok(())
        }
    });
    let worker = worker.start().expect("a worker");
    let task = flow.task().await;
    flow.ends(task, "complete").await;
    let sql =
        flow.db.schema().sql("select a.error from {schema}.attempt a where a.task_id = $1 and a.outcome = 'failed'");
    let error: String = sqlx::query_scalar(&sql).bind(task).fetch_one(flow.db.database().pool()).await.expect("one");
    let failure: Failure = serde_json::from_str(&error).expect("a failure");
    assert_eq!((failure.message.as_str(), failure.kind.as_deref()), ("handler panicked: no luck", Some("panic")));
    assert!(failure.retryable);
    let counts = stopped(worker).await;
    assert_eq!((counts.failed, counts.completed, counts.lost), (1, 2, 0));
}

/// A handler that exceeds its step's timeout is dropped, and its attempt fails for that reason.
/// It would wait for ever; a guard in it counts that it was dropped. There is one attempt, so the task ends with that
/// error.
#[tokio::test]
async fn a_handler_that_takes_too_long_is_dropped() {
    let flow = Fixture::with("[{name: a, timeout_seconds: 3, retry: {max_attempts: 1}}]").await;
    let dropped = Arc::new(Dropped::default());
    let guard = dropped.clone();
    let worker = flow.worker("w").namespace(NAMESPACE).handle("a", move |step: Step<Value>| {
        let guard = guard.guard();
        async move {
            let (_guard, _step) = (guard, step);
            std::future::pending::<Result<(), Failure>>().await
        }
    });
    let worker = worker.start().expect("a worker");
    let task = flow.task().await;
    flow.ends(task, "error").await;
    assert_eq!(dropped.count(), 1);
    let error = flow.last_word(task).await;
    assert_eq!((&error["type"], &error["retryable"]), (&json!("timeout"), &json!(true)), "{error}");
    assert_eq!(stopped(worker).await.failed, 1);
}

/// An input of another type than the handler declares fails the step permanently, and the error names it.
#[tokio::test]
async fn an_input_of_another_type_is_named() {
    let flow = Fixture::with("[{name: a}]").await;
    let cases = [
        (flow.worker("w").handle("a", async |_: Step<Vec<u8>>| Ok(())), "the task's context has an unexpected type"),
        (flow.worker("w").handle("a", async |step: Step<Value>| step.result::<u8>("z")), "no result of step \"z\""),
        (flow.worker("w").handle("a", async |step: Step<Value>| step.input::<u8>()), "not a part of a batch"),
    ];
    for (worker, expected) in cases {
        let worker = worker.namespace(NAMESPACE).start().expect("a worker");
        let task = flow.task().await;
        flow.ends(task, "error").await;
        let error = flow.last_word(task).await;
        assert!(error["message"].as_str().is_some_and(|message| message.contains(expected)), "{error}");
        assert_eq!(error["retryable"], json!(false));
        stopped(worker).await;
    }
}

/// A result that the template does not allow fails the step permanently, with the reason.
#[tokio::test]
async fn a_result_that_is_not_allowed_is_a_failure() {
    let schema = "{type: object, required: [total]}";
    let flow = Fixture::with(&format!("[{{name: a, result_schema: {schema}}}]")).await;
    let worker = flow.worker("w").namespace(NAMESPACE).handle("a", async |_: Step<Value>| Ok(json!({"sum": 1})));
    let worker = worker.start().expect("a worker");
    let task = flow.task().await;
    flow.ends(task, "error").await;
    let error = flow.last_word(task).await;
    assert!(error["message"].as_str().is_some_and(|message| message.contains("total")), "{error}");
    assert_eq!((&error["retryable"], &error["type"]), (&json!(false), &json!("refused")));
    assert_eq!(stopped(worker).await.failed, 1);
}

/// A handler may be a type, and may yield with a checkpoint: the next attempt continues from it, uncharged.
#[tokio::test]
async fn a_handler_yields_and_continues() {
    struct Countdown;
    impl Handler for Countdown {
        type Context = Context;
        type Output = Handled<String>;

        async fn handle(&self, step: Step<Context>) -> Result<Handled<String>, Failure> {
            match step.checkpoint::<i64>()?.unwrap_or(step.context.a) {
                0 => Ok(Handled::Done(format!("attempt {}", step.attempt()))),
                left => step.yield_with(&(left - 1)),
            }
        }
    }
    let flow = Fixture::with("[{name: a}]").await;
    let worker = flow.worker("w").namespace(NAMESPACE).register("a", Countdown).start().expect("a worker");
    let task = flow.submit(submission("t", json!({"a": 4}))).await.expect("a task").task_uuid;
    flow.ends(task, "complete").await;
    assert_eq!(flow.last_word(task).await, json!("attempt 1"));
    let counts = stopped(worker).await;
    assert_eq!((counts.claimed, counts.yielded, counts.completed), (5, 4, 1));
}

/// No more handlers than allowed run at a time, and no fewer.
/// Each waits for the maximum number; none would continue if there were fewer.
#[tokio::test]
async fn the_limit_of_handlers_is_kept_and_used() {
    const LIMIT: usize = 3;
    let flow = Fixture::with("[{name: a}]").await;
    let (meeting, at_work, most) =
        (Arc::new(Barrier::new(LIMIT)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = most.clone();
    let worker = flow.worker("w").namespace(NAMESPACE).concurrency(LIMIT).handle("a", move |_: Step<Value>| {
        let (meeting, at_work, most) = (meeting.clone(), at_work.clone(), most.clone());
        async move {
            most.fetch_max(at_work.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            meeting.wait().await;
            tokio::task::yield_now().await;
            at_work.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        }
    });
    let mut tasks = Vec::new();
    for _ in 0..4 * LIMIT {
        tasks.push(flow.task().await);
    }
    let worker = worker.start().expect("a worker");
    for task in tasks {
        flow.ends(task, "complete").await;
    }
    assert_eq!(seen.load(Ordering::SeqCst), LIMIT);
    stopped(worker).await;
}

/// A worker with invalid options is not started.
#[tokio::test]
async fn a_worker_with_invalid_options_is_rejected() {
    let flow = Fixture::new().await;
    let nothing = async |_: Step<Value>| Ok(());
    let whole = |flow: &Flow| flow.worker("w").namespace(NAMESPACE).handle("a", nothing);
    let refused = [
        (flow.worker("w").handle("a", nothing), "namespaces"),
        (flow.worker("w").namespace(NAMESPACE), "handlers"),
        (whole(&flow).handle("a", nothing), "handlers"),
        (whole(&flow).concurrency(0), "concurrency"),
        (whole(&flow).pipelined_reports(10_001), "pipelined_reports"),
        (whole(&flow).lease(Duration::ZERO), "lease_ms"),
    ];
    for (builder, expected) in refused {
        let error = builder.start().expect_err(expected);
        assert!(matches!(error, reveille_flow::Error::Invalid { what, .. } if what == expected), "{error}");
    }
    stopped(whole(&flow).start().expect("a worker")).await;
}

/// Counts what was dropped.
#[derive(Default)]
pub(crate) struct Dropped(Arc<AtomicUsize>);

impl Dropped {
    pub(crate) fn guard(&self) -> Guard {
        Guard(self.0.clone())
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

pub(crate) struct Guard(Arc<AtomicUsize>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}
