//! Operators and workers at the same time: one of them is first, and both get the right outcome.

use std::time::Duration;

use reveille_flow::{
    AttemptResult, BulkFilter, BulkOperation, BulkRequest, ClaimRequest, Error, Flow, Obstacle, Operation, Refused,
    StepState,
};
use reveille_pg::testing::{PATIENCE, eventually};
use serde_json::json;
use sqlx::postgres::{PgListener, PgPoolOptions};
use sqlx::{Postgres, Transaction};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::fixture::{Fixture, failure, worker};
use crate::manual::who;

type Spawned = JoinHandle<Result<reveille_flow::Operated, Error>>;

fn operating(flow: &Flow, task: Uuid, step: &str, operation: Operation) -> Spawned {
    let (flow, step) = (flow.clone(), step.to_owned());
    tokio::spawn(async move { flow.operate(task, &step, operation, who()).await })
}

fn by_hand() -> Operation {
    Operation::CompleteManually { result: json!("by hand").into() }
}

/// A concurrent transaction that holds locks.
pub(crate) struct Holder {
    transaction: Transaction<'static, Postgres>,
    pid: i32,
}

impl Holder {
    /// A transaction that has run this statement.
    pub(crate) async fn of(flow: &Fixture, sql: &str, task: Uuid) -> Holder {
        let mut transaction = flow.db.database().pool().begin().await.expect("begin");
        let pid = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut *transaction).await.expect("a pid");
        sqlx::query(flow.db.schema().sql(sql)).bind(task).execute(&mut *transaction).await.expect("a lock");
        Holder { transaction, pid }
    }

    /// Returns when this many sessions wait for it.
    pub(crate) async fn is_waited_for(&self, flow: &Fixture, waiters: i64) {
        // The second one in the queue waits for the first.
        let waiting = "with recursive behind (pid) as (
            select $1 union select a.pid from pg_stat_activity a, behind b where b.pid = any (pg_blocking_pids(a.pid))
        ) select count(*) - 1 from behind";
        eventually("they wait for it", async || {
            let pool = flow.db.database().pool();
            sqlx::query_scalar::<_, i64>(waiting).bind(self.pid).fetch_one(pool).await.expect("a count") >= waiters
        })
        .await;
    }

    pub(crate) async fn end(self) {
        self.transaction.commit().await.expect("commit");
    }

    /// Commits when this many sessions wait for it.
    async fn end_before(self, flow: &Fixture, waiters: i64) {
        self.is_waited_for(flow, waiters).await;
        self.end().await;
    }
}

pub(crate) const THE_TASK: &str = "select from {schema}.task t where t.id = $1 for update";

/// An operation waits for a claim that is not committed yet: the step is taken from its claimer.
/// The claim is held open until the operation waits for it.
#[tokio::test]
async fn an_operation_waits_for_a_claim_and_takes_the_step_away() {
    for cancels in [false, true] {
        let flow = Fixture::with("[{name: a}, {name: b, dependencies: [a]}]").await;
        let task = flow.task().await;
        let claim = "select c.fence from {schema}.claim_steps(array['tests'], null, '{}', '{}', '{}', 7, array[1], array['quick'], array[60000], false) c where $1::uuid is not null";
        let holder = Holder::of(&flow, claim, task).await;
        if cancels {
            let cancelling = flow.flow.clone();
            let cancelling = tokio::spawn(async move { cancelling.cancel(task, who()).await });
            holder.end_before(&flow, 1).await;
            assert_eq!(cancelling.await.expect("no panic").expect("it is cancelled").cancelled_steps, 2);
        } else {
            let operating = operating(&flow, task, "a", by_hand());
            holder.end_before(&flow, 1).await;
            assert_eq!(operating.await.expect("no panic").expect("it is done").before, StepState::InProgress);
        }
        flow.check_invariants(task, "the claim and the operation").await;
        assert_eq!(flow.attempts(task).await.iter().filter(|(_, outcome)| outcome == "taken_away").count(), 1);
        assert_eq!(flow.run().await, if cancels { [""; 0].to_vec() } else { vec!["b"] });
    }
}

/// A claim skips a step that an operator is changing, and does not get it later, either.
/// The operation is held open.
#[tokio::test]
async fn a_claim_skips_a_step_under_operation() {
    let flow = Fixture::with("[{name: a}, {name: b}]").await;
    let task = flow.task().await;
    let resolve = "select {schema}.operate_step(null, '{}', '{}', true, row($1::uuid, 0, null, 'resolved_manually',
        array['ready'], 'ann', null, null, null, null, null, false)::{schema}.step_operation)";
    let holder = Holder::of(&flow, resolve, task).await;
    let b = flow.now(9).await;
    assert_eq!(b.iter().map(|step| step.name.as_str()).collect::<Vec<_>>(), ["b"]);
    holder.end_before(&flow, 0).await;
    assert!(flow.now(9).await.is_empty());
    flow.complete(&b[0], json!(1)).await;
    assert_eq!(flow.state_and_open_steps(task).await, ("complete".to_owned(), 0));
}

/// The report of a worker and an operation at the same time: exactly one is applied, and the other is rejected.
/// Both wait for the task before either has it.
#[tokio::test]
async fn a_report_and_an_operation_exclude_each_other() {
    let flow = Fixture::with("[{name: a}, {name: b, dependencies: [a]}]").await;
    for _ in 0..3 {
        let task = flow.task().await;
        let a = flow.next().await;
        let holder = Holder::of(&flow, THE_TASK, task).await;
        let operating = operating(&flow, task, "a", by_hand());
        let saying = flow.flow.clone();
        let said =
            reveille_flow::StepReport { token: a.token, result: AttemptResult::Complete(json!("worked").into()) };
        let saying = tokio::spawn(async move { saying.report(vec![said]).await });
        holder.end_before(&flow, 2).await;
        let operated = operating.await.expect("no panic");
        let outcome = saying.await.expect("no panic").expect("an answer").remove(0);
        let result = match (operated, outcome) {
            (Ok(_), Err(Refused::Lost)) => json!({"a": "by hand"}),
            (Err(Error::NotAllowed { obstacle: Obstacle::Step(StepState::Complete), .. }), Ok(_)) => {
                json!({"a": "worked"})
            }
            other => panic!("{other:?}"),
        };
        flow.check_invariants(task, "both").await;
        assert_eq!(crate::fixture::read(&flow.next().await.results), result);
    }
}

/// The engine's end of a last attempt and an operation at the same time: in either order the step ends as the operator
/// wants. The task is locked until the lease has ended and both wait for it.
#[tokio::test]
async fn the_end_of_a_lease_and_an_operation() {
    for operation in [by_hand(), Operation::ResolveManually] {
        let flow = Fixture::with("[{name: a, retry: {max_attempts: 1}}, {name: b, dependencies: [a]}]").await;
        let _orchestrator = flow.orchestrate();
        let task = flow.task().await;
        let short = ClaimRequest { lease: Duration::from_millis(300), ..worker() };
        // A claim does not need the task.
        let holder = Holder::of(&flow, THE_TASK, task).await;
        let a = flow.claim(&short, 1, None).await.expect("a claim").remove(0);
        let operating = operating(&flow, task, "a", operation);
        holder.end_before(&flow, 2).await;
        let operated = operating.await.expect("no panic").expect("it is done");
        assert!(matches!(operated.before, StepState::InProgress | StepState::Error), "{operated:?}");
        assert_eq!(flow.next().await.name, "b");
        assert_eq!(flow.say(&a, AttemptResult::Complete(json!("late").into())).await, Err(Refused::Lost));
        flow.check_invariants(task, "both").await;
    }
}

/// A step that was in progress when its task stopped is claimed by another worker after the task was resumed, if its
/// own worker dies; no orchestrator runs.
#[tokio::test]
async fn steps_in_progress_of_a_resumed_task_are_claimed_again() {
    let flow = Fixture::with("[{name: a}, {name: b}]").await;
    listener_connected(&flow).await;
    let task = flow.task().await;
    let a = flow.next().await;
    let brief = ClaimRequest { lease: Duration::from_secs(2), ..worker() };
    flow.claim(&brief, 1, None).await.expect("a claim").pop().expect("b");
    assert_eq!(flow.fail(&a, false).await.task, None);
    let waiting = flow.waiting(&["b"]).await;
    flow.operate(task, "a", Operation::ResolveManually, who()).await.expect("it is resolved");
    flow.check_invariants(task, "the resolution").await;
    let b = waiting.await.expect("no panic");
    assert_eq!(b.attempt, 2);
    flow.complete(&b, json!(1)).await;
    assert_eq!(flow.state_and_open_steps(task).await, ("complete".to_owned(), 0));
}

/// Every group polls once when the listener connects: later waiters are woken by wake-ups alone.
async fn listener_connected(flow: &Fixture) {
    eventually("it hears", async || flow.health().is_connected()).await;
}

/// An operation wakes claims for the steps that it makes ready: successors, stopped steps, and the rest of a decision.
/// Each claim waits by name before the operation.
#[tokio::test]
async fn operations_wake_waiting_claims() {
    let steps = "[{name: a}, {name: b, dependencies: [a]}, {name: stopped}, {name: d, type: decision, dependencies: [b]},
                  {name: branch, dependencies: [d]}, {name: end, type: deferred_convergence, dependencies: [d, branch]}]";
    let flow = Fixture::with(steps).await;
    listener_connected(&flow).await;
    let task = flow.task().await;
    let stopped = ClaimRequest { steps: Some(vec!["stopped".to_owned()]), ..worker() };
    let stopped = flow.claim(&stopped, 1, None).await.expect("a claim").pop().expect("a step");
    flow.fail(&flow.next().await, false).await;
    flow.say(&stopped, AttemptResult::GivenBack).await.expect("it counts");
    for (step, operation, woken) in [
        ("a", by_hand(), vec!["b", "stopped"]),
        ("b", by_hand(), vec!["d"]),
        ("d", Operation::ResolveManually, vec!["end"]),
    ] {
        let mut waiting = Vec::new();
        for name in &woken {
            waiting.push(flow.waiting(&[name]).await);
        }
        flow.operate(task, step, operation, who()).await.expect("it is done");
        for (waiting, name) in waiting.into_iter().zip(woken) {
            assert_eq!(waiting.await.expect("no panic").name, name);
        }
    }
}

/// A claim that waits for a step is woken when the step is reset.
#[tokio::test]
async fn a_reset_wakes_waiting_claims() {
    let flow = Fixture::with("[{name: a}]").await;
    listener_connected(&flow).await;
    let task = flow.task().await;
    flow.fail(&flow.next().await, false).await;
    let waiting = flow.waiting(&["a"]).await;
    flow.operate(task, "a", Operation::ResetForRetry, who()).await.expect("it is reset");
    assert_eq!(waiting.await.expect("no panic").attempt, 1);
}

/// Other processes are notified of every change of a task, and only of changes: not of rejected operations or previews.
/// Another connection listens; a last operation marks the end of the notifications.
#[tokio::test]
async fn other_processes_are_notified_of_every_change() {
    let flow = Fixture::with("[{name: a}, {name: b}]").await;
    let (task, other, last) = (flow.task().await, flow.task().await, flow.task().await);
    let pool = PgPoolOptions::new().max_connections(1).connect(flow.db.url()).await.expect("connect");
    let mut outsider = PgListener::connect_with(&pool).await.expect("connect");
    let channel = |suffix| reveille_wake::channel_name(flow.db.schema().name(), suffix);
    outsider.listen_all([channel("flow_watch").as_str(), channel("flow").as_str()]).await.expect("listen");
    flow.operate(task, "a", Operation::ResetForRetry, who()).await.expect_err("it did not fail");
    let filter = BulkFilter { tasks: Some(vec![task]), ..BulkFilter::default() };
    let preview = BulkRequest { filter, operation: BulkOperation::CancelTask, limit: 9, preview: true };
    assert_eq!(flow.bulk(preview, who()).await.expect("a report").done, 1);
    flow.operate(task, "a", Operation::ResolveManually, who()).await.expect("it is resolved");
    flow.cancel(other, who()).await.expect("it is cancelled");
    flow.resolve(last, who()).await.expect("it is resolved");
    let (mut watched, mut readied) = (Vec::new(), 0);
    while watched.last() != Some(&last.to_string()) {
        let heard =
            tokio::time::timeout(PATIENCE, outsider.recv()).await.expect("a notification").expect("the line holds");
        if heard.channel() == channel("flow") {
            readied += 1;
        } else {
            watched.push(heard.payload().to_owned());
        }
    }
    assert_eq!(watched, [task, other, last].map(|task| task.to_string()));
    assert_eq!(readied, 1);
}

/// Workers and operators at the same tasks concurrently: no call fails, every task stays consistent, and all can be
/// completed.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_operations_keep_tasks_consistent() {
    const ACTIONS: usize = 40;
    let steps = "[{name: a}, {name: b}, {name: c, dependencies: [a, b]}, {name: d, dependencies: [a]}, {name: e, dependencies: [c, d]}]";
    let flow = Fixture::with(steps).await;
    let mut tasks = Vec::new();
    for _ in 0..4 {
        tasks.push(flow.task().await);
    }
    let mut all = tokio::task::JoinSet::new();
    for seed in 0..4 {
        let flow = flow.flow.clone();
        all.spawn(async move {
            let mut rng = fastrand::Rng::with_seed(seed);
            for _ in 0..ACTIONS {
                for step in flow.claim(&worker(), 2, None).await.expect("a claim") {
                    let said = match rng.u8(..4) {
                        0 => AttemptResult::Failed(failure(false)),
                        1 => AttemptResult::GivenBack,
                        _ => AttemptResult::Complete(json!(1).into()),
                    };
                    let _ = flow
                        .report(vec![reveille_flow::StepReport { token: step.token, result: said }])
                        .await
                        .expect("an answer");
                }
            }
        });
    }
    for seed in 4..8 {
        let (flow, tasks) = (flow.flow.clone(), tasks.clone());
        all.spawn(async move {
            let mut rng = fastrand::Rng::with_seed(seed);
            for _ in 0..ACTIONS {
                let (task, step) = (tasks[rng.usize(..4)], ["a", "b", "c", "d", "e"][rng.usize(..5)]);
                let operation = match rng.u8(..8) {
                    0 => Operation::ResolveManually,
                    1 => by_hand(),
                    _ => Operation::ResetForRetry,
                };
                match flow.operate(task, step, operation, who()).await {
                    Ok(_) | Err(Error::NotAllowed { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
    }
    while let Some(ended) = all.join_next().await {
        ended.expect("no failure");
    }
    let filter = BulkFilter { tasks: Some(tasks.clone()), ..BulkFilter::default() };
    let reset = BulkRequest { filter, operation: BulkOperation::ResetForRetry, limit: 100, preview: false };
    flow.bulk(reset, who()).await.expect("a report");
    for task in &tasks {
        flow.check_invariants(*task, "everything").await;
    }
    flow.waves().await;
    for task in tasks {
        assert_eq!(flow.state_and_open_steps(task).await, ("complete".to_owned(), 0));
    }
}
