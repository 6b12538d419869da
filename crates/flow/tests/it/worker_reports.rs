//! Workers of the SDK while their reports are committed: which slots are free meanwhile, and what becomes of the
//! reports. A lock on the row of a task keeps reports on its steps from being committed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use reveille_flow::{Failure, Step, WorkerBuilder};
use reveille_pg::testing::eventually;
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify, mpsc};
use tokio::time::timeout;
use uuid::Uuid;

use crate::fixture::{Fixture, NAMESPACE, PATIENCE};
use crate::interleaved::{Holder, THE_TASK};
use crate::workers::stopped;

/// Locks every task that exists.
const ALL_TASKS: &str = "select from {schema}.task t where $1::uuid is not null for update";
/// The default of `pipelined_reports`.
const PIPELINED: u64 = 64;

/// The tasks whose handlers have begun, in order.
struct Begun(mpsc::UnboundedReceiver<Uuid>);

impl Begun {
    async fn next(&mut self) -> Uuid {
        timeout(PATIENCE, self.0.recv()).await.expect("a handler begins").expect("the worker lives")
    }
}

/// A worker of one slot, whose handler of `a` tells its task and returns the result.
fn of_one_slot(flow: &Fixture, result: &Value) -> (WorkerBuilder, Begun) {
    let (begin, begun) = mpsc::unbounded_channel();
    let result = result.clone();
    let worker = flow.worker("w").namespace(NAMESPACE).concurrency(1).handle("a", move |step: Step<Value>| {
        begin.send(step.task()).expect("the test lives");
        std::future::ready(Ok::<_, Failure>(result.clone()))
    });
    (worker, Begun(begun))
}

/// Waits until the worker has sent a heartbeat for the step of a task: it would have claimed another one before.
async fn heartbeat(flow: &Fixture, task: Uuid, lease: Duration) {
    let sql = flow.db.schema().sql(
        "select s.due_at > s.since + $2 * interval '1.2 s' from {schema}.step s
         where s.task_id = $1 and s.state = 'in_progress'",
    );
    eventually("a heartbeat", async || {
        let query = sqlx::query_scalar(&sql).bind(task).bind(lease.as_secs_f64());
        query.fetch_one(flow.db.database().pool()).await.expect("the step is not reported")
    })
    .await;
}

/// Counters by name and labels, for the thread of a test.
#[derive(Clone, Default)]
struct Recorded(Arc<Mutex<BTreeMap<String, u64>>>);

struct Counted {
    name: String,
    recorded: Recorded,
}

impl CounterFn for Counted {
    fn increment(&self, by: u64) {
        *self.recorded.0.lock().expect("no panic").entry(self.name.clone()).or_default() += by;
    }

    fn absolute(&self, _: u64) {}
}

impl Recorded {
    fn of(&self, name: &str) -> u64 {
        self.0.lock().expect("no panic").get(name).copied().unwrap_or_default()
    }
}

impl Recorder for Recorded {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels: Vec<String> = key.labels().map(|label| format!(" {}={}", label.key(), label.value())).collect();
        Counter::from_arc(Arc::new(Counted { name: key.name().to_owned() + &labels.concat(), recorded: self.clone() }))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// The next step starts while the report on the one before is being committed.
/// The worker has one slot. The first task is locked until the handler of the second has begun.
#[tokio::test]
async fn a_slot_is_free_while_its_report_is_committed() {
    let flow = Fixture::with("[{name: a}]").await;
    let (first, second) = (flow.task().await, flow.task().await);
    let lock = Holder::of(&flow, THE_TASK, first).await;
    let (worker, mut begun) = of_one_slot(&flow, &json!(1));
    let worker = worker.start().expect("a worker");
    assert_eq!((begun.next().await, begun.next().await), (first, second));
    assert_eq!(flow.attempts(first).await, []);
    flow.ends(second, "complete").await;
    lock.end().await;
    flow.ends(first, "complete").await;
    let counts = stopped(worker).await;
    assert_eq!((counts.claimed, counts.completed, counts.lost), (2, 2, 0));
}

/// Slots that become free together are filled by one claim, with pipelined reports and without.
/// The handlers of eight slots end together, three times: three claims find all steps, some more if a busy machine ends
/// the handlers in parts. A claim for every slot would be seventeen.
#[tokio::test]
async fn slots_that_are_free_together_are_filled_by_one_claim() {
    const SLOTS: usize = 8;
    for pipelined in [64, 0] {
        let flow = Fixture::with("[{name: a}]").await;
        let mut tasks = Vec::new();
        for _ in 0..3 * SLOTS {
            tasks.push(flow.task().await);
        }
        let together = Arc::new(Barrier::new(SLOTS));
        let worker = flow.worker("w").namespace(NAMESPACE).concurrency(SLOTS).pipelined_reports(pipelined);
        let worker = worker.handle("a", move |_: Step<Value>| {
            let together = together.clone();
            async move {
                together.wait().await;
                Ok(())
            }
        });
        let worker = worker.start().expect("a worker");
        for task in tasks {
            flow.ends(task, "complete").await;
        }
        stopped(worker).await;
        let claims = flow.claims();
        assert!(claims.polls - claims.empty_polls < 3 * SLOTS as u64 / 2, "{pipelined}: {claims:?}");
    }
}

/// Reports beyond the bound hold their slots: a worker of one slot starts one step more than the bound and then none,
/// until outcomes are known. All tasks are locked; a heartbeat shows that the worker has had time for more.
#[tokio::test]
async fn reports_beyond_the_bound_hold_their_slots() {
    let flow = Fixture::with("[{name: a}]").await;
    let mut tasks = Vec::new();
    for _ in 0..PIPELINED + 5 {
        tasks.push(flow.task().await);
    }
    let lock = Holder::of(&flow, ALL_TASKS, tasks[0]).await;
    let (lease, (worker, mut begun)) = (Duration::from_secs(9), of_one_slot(&flow, &json!(1)));
    let worker = worker.lease(lease).start().expect("a worker");
    for task in &tasks[..PIPELINED as usize + 1] {
        assert_eq!(begun.next().await, *task);
    }
    heartbeat(&flow, tasks[PIPELINED as usize], lease).await;
    let counts = worker.counts();
    assert_eq!((counts.claimed, counts.running, counts.completed), (PIPELINED + 1, 0, 0));
    lock.end().await;
    for task in tasks {
        flow.ends(task, "complete").await;
    }
    assert_eq!(stopped(worker).await.completed, PIPELINED + 5);
}

/// The only slot is taken until the report is committed if pipelining is off, the result is large, the lease may end
/// too soon, or a limit allows one step. The task of the first step is locked; a heartbeat shows that the worker has had
/// time to claim the second.
#[tokio::test]
async fn a_slot_is_held_where_it_must_be() {
    const LEASE: Duration = Duration::from_secs(3);
    const SHORT: Duration = Duration::from_secs(1);
    let large = json!("x".repeat(64 << 10));
    for (what, pipelined, lease, result, limit) in [
        ("off", 0, LEASE, &json!(1), None),
        ("a large result", 64, LEASE, &large, None),
        ("a short lease", 64, SHORT, &json!(1), None),
        ("a limit", 64, LEASE, &json!(1), Some(1)),
    ] {
        let flow = Fixture::with("[{name: a}]").await;
        flow.limit(NAMESPACE, None, limit).await.expect("limited");
        let (first, second) = (flow.task().await, flow.task().await);
        let lock = Holder::of(&flow, THE_TASK, first).await;
        let (worker, mut begun) = of_one_slot(&flow, result);
        let worker = worker.pipelined_reports(pipelined).lease(lease).start().expect("a worker");
        assert_eq!(begun.next().await, first, "{what}");
        lock.is_waited_for(&flow, 1).await;
        heartbeat(&flow, first, lease).await;
        let counts = worker.counts();
        assert_eq!((counts.claimed, counts.running), (1, 0), "{what}");
        lock.end().await;
        assert_eq!(begun.next().await, second, "{what}");
        flow.ends(second, "complete").await;
        assert_eq!(flow.attempts(first).await, [(1, "complete".to_owned())], "{what}");
        assert_eq!(stopped(worker).await.completed, 2, "{what}");
    }
}

/// A worker that stops waits for the outcomes of its reports.
/// The first report is locked. The second handler waits for the stop, and its report is applied after that; only then
/// the lock is released.
#[tokio::test]
async fn a_stop_waits_for_reports() {
    let flow = Fixture::with("[{name: a}]").await;
    let (first, second) = (flow.task().await, flow.task().await);
    let lock = Holder::of(&flow, THE_TASK, first).await;
    let worker =
        flow.worker("w").namespace(NAMESPACE).concurrency(1).handle("a", move |step: Step<Value>| async move {
            if step.task() == second {
                step.signal().stopping().await;
            }
            Ok(())
        });
    let worker = worker.start().expect("a worker");
    eventually("the second is at work", async || worker.counts().claimed == 2 && worker.counts().running == 1).await;
    let stopping = tokio::spawn(worker.stop(PATIENCE));
    flow.ends(second, "complete").await;
    lock.is_waited_for(&flow, 1).await;
    assert!(!stopping.is_finished());
    lock.end().await;
    let counts = timeout(PATIENCE, stopping).await.expect("it stops").expect("no panic");
    assert_eq!((counts.completed, counts.lost, counts.given_back), (2, 0, 0));
    assert_eq!(flow.attempts(first).await, [(1, "complete".to_owned())]);
}

/// A report that comes after the lease has ended fails and is counted, and the step is run again by another worker.
/// The report waits for a lock. The test ends the lease, and another worker claims the step; only then is the lock
/// released. The first worker's slot has the second task by then, so it cannot claim the step again.
#[tokio::test]
async fn a_report_after_the_lease_is_lost() {
    let recorded = Recorded::default();
    let _recording = metrics::set_default_local_recorder(&recorded);
    let flow = Fixture::with("[{name: a}]").await;
    let (first, second) = (flow.task().await, flow.task().await);
    let lock = Holder::of(&flow, THE_TASK, first).await;
    let go_on = Arc::new(Notify::new());
    let goes_on = go_on.clone();
    let slow = flow.worker("slow").namespace(NAMESPACE).concurrency(1).lease(Duration::from_secs(3_600));
    let slow = slow.handle("a", move |step: Step<Value>| {
        let goes_on = goes_on.clone();
        async move {
            if step.task() == second {
                goes_on.notified().await;
            }
            Ok("slow")
        }
    });
    let slow = slow.start().expect("a worker");
    eventually("the second is at work", async || slow.counts().claimed == 2 && slow.counts().running == 1).await;
    lock.is_waited_for(&flow, 1).await;
    let sql = flow.db.schema().sql("update {schema}.step set due_at = now() where task_id = $1");
    sqlx::query(&sql).bind(first).execute(flow.db.database().pool()).await.expect("the lease has ended");
    let quick = flow.worker("quick").namespace(NAMESPACE).handle("a", async |_: Step<Value>| Ok("quick"));
    let quick = quick.start().expect("a worker");
    eventually("it is claimed again", async || quick.counts().claimed == 1).await;
    assert_eq!(recorded.of("reveille_flow_reports_failed_total reason=lost"), 0);
    lock.end().await;
    flow.ends(first, "complete").await;
    eventually("the report is lost", async || slow.counts().lost == 1).await;
    assert_eq!(recorded.of("reveille_flow_reports_failed_total reason=lost"), 1);
    assert_eq!(flow.last_word(first).await, json!("quick"));
    assert_eq!(flow.attempts(first).await, [(1, "lease_ended".to_owned()), (2, "complete".to_owned())]);
    go_on.notify_one();
    flow.ends(second, "complete").await;
    let (slow, quick) = (stopped(slow).await, stopped(quick).await);
    assert_eq!((slow.completed, slow.lost, quick.completed, quick.lost), (1, 1, 1, 0));
}

/// A report that fails is sent again until it is applied, once.
/// A trigger fails writes until a second batch of reports has failed: the first report was sent again.
#[tokio::test]
async fn a_failed_report_is_sent_again() {
    let recorded = Recorded::default();
    let _recording = metrics::set_default_local_recorder(&recorded);
    let flow = Fixture::with("[{name: a}]").await;
    let task = flow.task().await;
    let go_on = Arc::new(Notify::new());
    let goes_on = go_on.clone();
    let worker = flow.worker("w").namespace(NAMESPACE).handle("a", move |_: Step<Value>| {
        let goes_on = goes_on.clone();
        async move {
            goes_on.notified().await;
            Ok(())
        }
    });
    let worker = worker.start().expect("a worker");
    eventually("it is at work", async || worker.counts().running == 1).await;
    // A claim writes to this table, too.
    flow.db.fail_writes("attempt", "53100").await;
    go_on.notify_one();
    let failed = "reveille_wake_write_batches_total writer=complete outcome=failed";
    eventually("it has failed twice", async || recorded.of(failed) >= 2).await;
    flow.db.allow_writes("attempt").await;
    flow.ends(task, "complete").await;
    let counts = stopped(worker).await;
    assert_eq!((counts.claimed, counts.completed, counts.lost), (1, 1, 0));
    assert_eq!(flow.attempts(task).await, [(1, "complete".to_owned())]);
    assert_eq!(recorded.of("reveille_flow_reports_failed_total reason=failed"), 0);
}
