//! Removing tasks that have ended: after their retention, and by request.

use std::time::Duration;

use reveille_flow::{
    BulkFilter, BulkOperation, BulkReport, BulkRequest, Error, Flow, NamespaceChange, Operation, Options, Submission,
    TaskState,
};
use reveille_pg::testing::eventually;
use serde_json::json;
use uuid::Uuid;

use crate::fixture::{Fixture, NAMESPACE, submission};
use crate::manual::who;

/// The tables with rows of a task, each with the column of its id.
const TABLES: [(&str, &str); 9] = [
    ("task", "id"),
    ("task_detail", "task_id"),
    ("step", "task_id"),
    ("step_data", "task_id"),
    ("attempt", "task_id"),
    ("task_operation", "task_id"),
    ("investigation", "task_id"),
    ("domain_event", "task_id"),
    ("removed_task", "task_id"),
];

const STEPS: &str = "[{name: a, publishes_events: [{name: made, condition: always}]}, {name: b, dependencies: [a]}]";

impl Fixture {
    /// A task with rows in every table: it yielded, published an event, and an operator resolved a failure.
    async fn rich_task(&self) -> Uuid {
        let task = self.task().await;
        let step = self.next().await;
        let checkpoint = serde_json::value::to_raw_value(&7).expect("JSON");
        self.say(&step, reveille_flow::AttemptResult::Yielded(checkpoint)).await.expect("it counts");
        self.fail(&self.next().await, false).await;
        self.operate(task, "a", Operation::ResolveManually, who()).await.expect("it is resolved");
        self.complete(&self.next().await, json!(1)).await;
        self.resolve(task, who()).await.expect("it is resolved");
        task
    }

    /// Moves the end of tasks some days into the past.
    async fn ended_days_ago(&self, tasks: &[Uuid], days: i32) {
        let sql = "update {schema}.task set ended_at = now() - $2 * interval '1 day' where id = any ($1)";
        let sql = self.db.schema().sql(sql);
        sqlx::query(&sql).bind(tasks).bind(days).execute(self.db.database().pool()).await.expect("older tasks");
    }

    /// The number of rows of a task, by table.
    async fn rows_of(&self, task: Uuid) -> Vec<(&'static str, i64)> {
        let mut rows = Vec::new();
        for (table, column) in TABLES {
            let sql = format!("select count(*) from {{schema}}.{table} where {column} = $1");
            let sql = self.db.schema().sql(sql.leak());
            let count = sqlx::query_scalar(&sql).bind(task).fetch_one(self.db.database().pool()).await;
            rows.push((table, count.expect("a count")));
        }
        rows
    }

    async fn is_gone(&self, task: Uuid) -> bool {
        self.rows_of(task).await.iter().all(|(_, rows)| *rows == 0)
    }

    async fn there(&self, task: Uuid) -> bool {
        self.flow.task(task).await.expect("an answer").is_some()
    }

    async fn delete(&self, filter: BulkFilter, limit: usize, preview: bool) -> BulkReport {
        let request = BulkRequest { filter, operation: BulkOperation::DeleteTask, limit, preview };
        self.bulk(request, who()).await.expect("a report")
    }

    /// Runs one transaction of removal. Returns the number of removed tasks, and whether there are more.
    async fn prune_once(&self, tasks: i32, rows: i32) -> (i32, bool) {
        let sql = self.db.schema().sql("select removed, more from {schema}.prune_tasks($1, $2)");
        let pool = self.db.database().pool();
        sqlx::query_as(&sql).bind(tasks).bind(rows).fetch_one(pool).await.expect("it is pruned")
    }
}

/// A task is removed after its retention, with all its rows; a failed one is kept longer, and an open one is kept.
/// All tasks ended a month and a day ago; then a quarter of a year ago.
#[tokio::test]
async fn ended_tasks_are_removed_after_their_retention() {
    let flow = Fixture::with(STEPS).await;
    let rich = flow.rich_task().await;
    let empty: Vec<_> = flow.rows_of(rich).await.into_iter().filter(|(_, rows)| *rows == 0).collect();
    assert_eq!(empty, [("removed_task", 0)], "every other table has rows of it");
    let cancelled = flow.task().await;
    flow.cancel(cancelled, who()).await.expect("it is cancelled");
    let failed = flow.task().await;
    flow.fail(&flow.next().await, false).await;
    let (open, recent) = (flow.task().await, flow.task().await);
    flow.cancel(recent, who()).await.expect("it is cancelled");
    flow.ended_days_ago(&[rich, cancelled, failed], 31).await;
    let _orchestrator = flow.orchestrate();
    eventually("both are gone", async || flow.is_gone(rich).await && flow.is_gone(cancelled).await).await;
    assert!(flow.there(failed).await && flow.there(open).await && flow.there(recent).await);
    flow.ended_days_ago(&[failed], 91).await;
    // A change of a namespace makes the engine check again.
    flow.put_namespace(NAMESPACE, &NamespaceChange::default()).await.expect("changed");
    eventually("it is gone", async || flow.is_gone(failed).await).await;
    assert!(flow.there(open).await && flow.there(recent).await);
}

/// A changed retention applies at once, also to tasks that ended before; null keeps tasks for ever.
/// Two namespaces have tasks that ended five years ago. One transaction checks both and removes the tasks of one.
#[tokio::test]
async fn a_namespace_sets_its_retention() {
    let flow = Fixture::with("[{name: a}]").await;
    let text = "name: t\nnamespace_name: archive\nidentity_strategy: always_unique\nsteps: [{name: a}]\n";
    flow.register(text).await.expect("a template");
    let forever = NamespaceChange {
        retention_seconds: Some(None),
        failed_retention_seconds: Some(None),
        ..NamespaceChange::default()
    };
    let set = flow.put_namespace("archive", &forever).await.expect("changed").settings;
    assert_eq!((set.retention_seconds, set.failed_retention_seconds), (None, None));
    let kept = flow.put_namespace("archive", &NamespaceChange::default()).await.expect("nothing changed").settings;
    assert_eq!(kept, set, "settings that are not given stay");
    let old = flow.task().await;
    let archived = Submission::new("archive", "t", "1.0.0", json!({}));
    let archived = flow.submit(archived).await.expect("a task").task_uuid;
    for task in [old, archived] {
        flow.cancel(task, who()).await.expect("it is cancelled");
    }
    flow.ended_days_ago(&[archived], 2_000).await;
    flow.ended_days_ago(&[old], 1).await;
    let _orchestrator = flow.orchestrate();
    let hour = NamespaceChange { retention_seconds: Some(Some(3_600)), ..NamespaceChange::default() };
    flow.put_namespace(NAMESPACE, &hour).await.expect("changed");
    eventually("it is gone", async || flow.is_gone(old).await).await;
    assert!(flow.there(archived).await);
}

/// A retention out of range and a template that does not exist are rejected, and nothing is created.
#[tokio::test]
async fn invalid_retentions_and_templates_are_rejected() {
    let flow = Fixture::new().await;
    let default = NamespaceChange::default;
    for (change, what) in [
        (NamespaceChange { retention_seconds: Some(Some(59)), ..default() }, "retention_seconds"),
        (NamespaceChange { failed_retention_seconds: Some(Some(u64::MAX)), ..default() }, "failed_retention_seconds"),
        (NamespaceChange { template: Some("typo".to_owned()), ..default() }, "template"),
    ] {
        let error = flow.put_namespace("n", &change).await.expect_err("refused");
        assert!(matches!(&error, Error::Invalid { what: wrong, .. } if *wrong == what), "{error}");
    }
    assert!(flow.namespaces().await.expect("a list").is_empty());
    let read = |text: &str| serde_json::from_str::<NamespaceChange>(text).expect("a change").retention_seconds;
    assert_eq!((read("{}"), read(r#"{"retention_seconds": null}"#)), (None, Some(None)));
    assert_eq!(read(r#"{"retention_seconds": 60}"#), Some(Some(60)));
}

/// A removed task disappears at once, and its rows are deleted in transactions of limited size.
/// A task of twelve steps is removed with five rows per transaction.
#[tokio::test]
async fn a_large_task_is_removed_in_bounded_transactions() {
    let steps: Vec<String> = (0..12).map(|step| format!("{{name: s{step}}}")).collect();
    let flow = Fixture::with(&format!("[{}]", steps.join(", "))).await;
    let task = flow.task().await;
    flow.run().await;
    flow.ended_days_ago(&[task], 31).await;
    let count = async || flow.rows_of(task).await.iter().map(|(_, rows)| rows).sum::<i64>();
    assert_eq!(flow.prune_once(10, 5).await, (1, true));
    assert!(!flow.there(task).await);
    let mut before = count().await;
    assert_eq!(before, 7 + 7 + 1, "steps, attempts, and that it was removed");
    let mut transactions = 1;
    while flow.prune_once(10, 5).await.1 {
        let left = count().await;
        assert!(left < before && before - left <= 10, "from {before} to {left}");
        (before, transactions) = (left, transactions + 1);
    }
    assert_eq!((transactions, count().await), (2, 0));
    assert_eq!(flow.prune_once(10, 5).await, (0, false), "no more to remove");
}

/// Servers that remove at the same time do not wait for each other, nor for an operator: locked tasks are left for
/// later.
#[tokio::test]
async fn locked_tasks_are_skipped() {
    let flow = Fixture::with("[{name: a}]").await;
    let (held, free) = (flow.task().await, flow.task().await);
    for task in [held, free] {
        flow.cancel(task, who()).await.expect("it is cancelled");
    }
    flow.ended_days_ago(&[held, free], 31).await;
    let mut other = flow.db.database().pool().begin().await.expect("a transaction");
    let lock = flow.db.schema().sql("select from {schema}.task where id = $1 for update");
    sqlx::query(&lock).bind(held).execute(&mut *other).await.expect("locked");
    assert_eq!(flow.prune_once(10, 100).await, (1, false));
    assert!(flow.there(held).await && flow.is_gone(free).await);
    let filter = || BulkFilter { tasks: Some(vec![held]), ..BulkFilter::default() };
    let report = flow.delete(filter(), 10, false).await;
    assert_eq!((report.done, report.refused.len()), (0, 1), "{report:?}");
    other.rollback().await.expect("free");
    assert_eq!(flow.delete(filter(), 10, false).await.done, 1);
}

/// Many ended tasks are removed by a filter, after a preview that changes nothing; open ones never match.
#[tokio::test]
async fn ended_tasks_are_deleted_by_filter() {
    let flow = Fixture::with("[{name: a}]").await;
    let mut cancelled = Vec::new();
    for _ in 0..3 {
        let task = flow.task().await;
        flow.cancel(task, who()).await.expect("it is cancelled");
        cancelled.push(task);
    }
    let done = flow.task().await;
    flow.run().await;
    let open = flow.task().await;
    let filter = || BulkFilter { namespace: Some(NAMESPACE.to_owned()), ..BulkFilter::default() };
    let of = |report: &BulkReport| (report.matched, report.done, report.refused.len(), report.remaining);
    let preview = flow.delete(filter(), 3, true).await;
    assert_eq!((of(&preview), preview.preview), ((4, 3, 0, 1), true));
    assert!(flow.there(cancelled[0]).await, "no task was removed");
    let state = BulkFilter { state: Some(TaskState::Cancelled), ..filter() };
    assert_eq!(of(&flow.delete(state, 2, false).await), (3, 2, 0, 1));
    assert!(!flow.there(cancelled[0]).await && flow.there(cancelled[2]).await && flow.there(done).await);
    assert_eq!(of(&flow.delete(filter(), 10, false).await), (2, 2, 0, 0));
    assert!(flow.there(open).await);
    let _orchestrator = flow.orchestrate();
    eventually("nothing is left", async || flow.is_gone(cancelled[0]).await && flow.is_gone(done).await).await;
}

/// A removed task no longer makes a submission a duplicate.
#[tokio::test]
async fn a_removed_task_can_be_submitted_again() {
    let flow = Fixture::with("[{name: a}]").await;
    let keyed = || Submission { idempotency_key: Some("once".to_owned()), ..submission("t", json!({})) };
    let first = flow.submit(keyed()).await.expect("a task").task_uuid;
    flow.run().await;
    flow.submit(keyed()).await.expect_err("a duplicate");
    flow.delete(BulkFilter { tasks: Some(vec![first]), ..BulkFilter::default() }, 1, false).await;
    assert_ne!(flow.submit(keyed()).await.expect("another task").task_uuid, first);
}

/// The pages that the engine reads to find and remove expired tasks do not grow with the number of kept tasks.
/// Ten thousand tasks have ended; one of them is due to be removed.
#[tokio::test]
async fn looking_for_expired_tasks_reads_a_few_pages() {
    let flow = Fixture::with("[{name: a}]").await;
    let task = flow.task().await;
    flow.cancel(task, who()).await.expect("it is cancelled");
    let fill = "insert into {schema}.task (id, namespace_id, template_id, state, priority, unfinished, next_ordinal, ended_at)
                select gen_random_uuid(), t.namespace_id, t.template_id, 'complete', 0, 0, 1, now() from {schema}.task t, generate_series(1, 10000)";
    let pool = flow.db.database().pool();
    sqlx::query(flow.db.schema().sql(fill)).execute(pool).await.expect("tasks");
    flow.ended_days_ago(&[task], 31).await;
    flow.db.analyze().await;
    let text = include_str!("../../db/statements/expired_tasks.sql").replace("$1", "1");
    let explain = format!("explain (analyze, buffers, format json) {text}");
    let plan: serde_json::Value =
        sqlx::query_scalar(flow.db.schema().sql(explain.leak())).fetch_one(pool).await.expect("a plan");
    let pages = |what: &str| plan[0]["Plan"][what].as_i64().expect("a number");
    let pages = pages("Shared Hit Blocks") + pages("Shared Read Blocks");
    println!("{pages} pages");
    assert!(pages < 60, "{pages} pages: {plan}");
    assert_eq!(flow.prune_once(500, 5_000).await, (1, false));
}

/// An engine without a task to remove sleeps, even if there is no namespace yet.
/// The server counts the statements of a role.
#[tokio::test]
async fn an_engine_without_expired_tasks_polls_once() {
    let flow = Fixture::new().await;
    let Some(role) = flow.db.counting_role().await else { return };
    let own = Flow::start(role.database(), flow.db.schema(), Options::default());
    let _orchestrator = own.orchestrate();
    eventually("it has asked", async || role.calls_matching("k.keep_s is not null").await > 0).await;
    eventually("no statement is sent for a while", async || {
        let before = role.calls().await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        role.calls().await == before
    })
    .await;
}
