//! Reports and submissions that claim what they make ready, for workers of the same process that wait.

use std::time::Duration;

use reveille_flow::{AttemptResult, ClaimRequest, ClaimedStep, Flow, Mode, NamespaceChange, Options, StepReport};
use reveille_pg::Database;
use reveille_pg::testing::{CountingRole, Proxy, TestDb, eventually};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::fixture::{Fixture, NAMESPACE, PATIENCE, read, submission, worker};

/// Texts of the statements that report and claim, and that submit and claim, and of no others.
const REPORT_AND_CLAIM: &str = ")) as ended";
const SUBMIT_AND_CLAIM: &str = ")) as submitted";
/// Two steps, one after the other.
const CHAIN: &str = "[{name: a}, {name: b, dependencies: [a]}]";

/// A flow with the template `t`, connected, whose statements are counted.
async fn counted(steps: &str) -> Option<(Fixture, CountingRole)> {
    let db = TestDb::new().await;
    let role = db.counting_role().await?;
    let flow = Flow::open(role.database().clone(), db.schema().clone(), Options::default()).await.expect("a flow");
    let flow = Fixture { db, flow };
    flow.template("t", steps).await;
    connected(&flow).await;
    Some((flow, role))
}

async fn connected(flow: &Flow) {
    eventually("it is connected", async || flow.health().is_connected()).await;
}

/// A worker that waits for a step of this name with a lease that does not end.
async fn asleep(flow: &Flow, step: &str) -> JoinHandle<ClaimedStep> {
    let request = ClaimRequest { steps: Some(vec![step.to_owned()]), lease: Duration::from_secs(3_600), ..worker() };
    let claiming = flow.clone();
    let waiting = tokio::spawn(async move {
        let claimed = claiming.claim(&request, 1, Some(Instant::now() + PATIENCE)).await;
        claimed.expect("a claim").pop().expect("nothing came")
    });
    let sleeps = || flow.health().consumers.iter().any(|it| &*it.name == "steps" && it.asleep == 1);
    eventually("the worker sleeps", async || sleeps()).await;
    waiting
}

/// The number of steps in progress.
async fn in_progress(flow: &Fixture) -> i64 {
    let sql = flow.db.schema().sql("select count(*) from {schema}.step s where s.state = 'in_progress'");
    sqlx::query_scalar(&sql).fetch_one(flow.db.database().pool()).await.expect("a count")
}

/// A step of a chain comes to a waiting worker with the statement that completes the step before, with its result. A
/// report that no worker waits for does not claim.
/// The server counts the statements of this test's role. Repeated, because a worker may poll just when the report is sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_completed_step_brings_its_successor() {
    let Some((flow, role)) = counted(CHAIN).await else { return };
    let claims = async || role.calls_matching(REPORT_AND_CLAIM).await;
    flow.task().await;
    let first = flow.next().await;
    flow.complete(&first, json!(1)).await;
    assert_eq!(flow.run().await, ["b"]);
    assert_eq!(claims().await, 0);

    eventually("a report claims", async || {
        flow.task().await;
        let first = flow.next().await;
        let waiting = asleep(&flow, "b").await;
        flow.complete(&first, json!(7)).await;
        let second = waiting.await.expect("no panic");
        assert_eq!((second.name.as_str(), second.attempt, read(&second.results)), ("b", 1, json!({"a": 7})));
        flow.complete(&second, json!(8)).await;
        assert_eq!(flow.state_and_open_steps(second.token.task).await, ("complete".to_owned(), 0));
        claims().await > 0
    })
    .await;
}

/// Of the reports on many steps before one, all but the last would claim for nothing: they do not claim, and the step
/// comes by a claim of its own.
/// The server counts the statements of this test's role.
#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_probably_readies_nothing_claims_nothing() {
    let joined = "[{name: a}, {name: b}, {name: c}, {name: d}, {name: z, dependencies: [a, b, c, d]}]";
    let Some((flow, role)) = counted(joined).await else { return };
    flow.task().await;
    let firsts = flow.now(4).await;
    let waiting = asleep(&flow, "z").await;
    for first in &firsts {
        flow.complete(first, json!(1)).await;
    }
    assert_eq!(waiting.await.expect("no panic").name, "z");
    assert_eq!(role.calls_matching(REPORT_AND_CLAIM).await, 0);
}

/// A submitted task's first step comes to a waiting worker with the statement that creates it. A task that no worker
/// waits for is created alone.
/// The server counts the statements of this test's role. Repeated, because a worker may poll just when the task is sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_submission_brings_its_first_step() {
    let Some((flow, role)) = counted(CHAIN).await else { return };
    let claims = async || role.calls_matching(SUBMIT_AND_CLAIM).await;
    flow.task().await;
    assert_eq!((claims().await, flow.now(1).await.len()), (0, 1));
    eventually("a submission claims", async || {
        let waiting = asleep(&flow, "a").await;
        let task = flow.task().await;
        let step = waiting.await.expect("no panic");
        assert_eq!((step.token.task, step.attempt, read(&step.context)), (task, 1, json!({"a": 1})));
        claims().await > 0
    })
    .await;
}

/// What a statement has written and claimed is neither lost nor stuck if the connection breaks around its commit: the
/// outcome is found, and the claim is released at once and uncharged.
/// The proxy cuts the connection before the statement or before its answer; leases are longer than the test.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_of_a_write_whose_answer_is_lost_comes_back_at_once() {
    let flow = Fixture::with(CHAIN).await;
    let proxy = Proxy::start(&flow.db).await;
    let database = Database::connect_lazy(proxy.url(), reveille_pg::Options::default()).expect("a pool");
    let own = Flow::start(&database, flow.db.schema(), Options::default());
    connected(&own).await;
    for round in 0..6 {
        let cut = |needle: &str| match round % 2 {
            0 => proxy.cut_reply_to(needle),
            _ => proxy.cut_request_with(needle),
        };
        let needle = format!("submitted-{round}");
        let waiting = asleep(&own, "a").await;
        let broken = cut(&needle);
        let task = own.submit(submission("t", json!(needle))).await.expect("a task").task_uuid;
        broken.happened().await;
        let step = waiting.await.expect("no panic");
        assert_eq!((step.token.task, step.attempt), (task, 1));

        let needle = format!("completed-{round}");
        let waiting = asleep(&own, "b").await;
        let broken = cut(&needle);
        let result = AttemptResult::Complete(json!(needle).into());
        let reported = own.report(vec![StepReport { token: step.token, result }]).await.expect("an answer").remove(0);
        broken.happened().await;
        assert!(!reported.expect("it counts").repeated);
        let next = waiting.await.expect("no panic");
        assert_eq!((next.token.task, next.attempt, read(&next.results)), (task, 1, json!({"a": needle})));
        flow.complete(&next, json!(1)).await;
        flow.check_invariants(task, "a broken connection").await;
    }
}

/// A statement that writes and claims commits durably: only a claim of its own need not wait for the disk.
#[tokio::test]
async fn a_write_that_claims_waits_for_the_disk() {
    let flow = Fixture::with(CHAIN).await;
    for (in_write, expected) in [(true, "on"), (false, "off")] {
        let mut transaction = flow.db.database().pool().begin().await.expect("begin");
        let claim = flow.db.schema().sql(
            "select {schema}.claim_steps(array['tests'], null, '{}', '{}', '{}', 7, array[1], array['w'], array[9], $1)",
        );
        sqlx::query(&claim).bind(in_write).execute(&mut *transaction).await.expect("claimed");
        let setting = sqlx::query_scalar("select current_setting('synchronous_commit')");
        let setting: String = setting.fetch_one(&mut *transaction).await.expect("a setting");
        assert_eq!(setting, expected);
    }
}

/// A claim in a write respects limits: a step beyond its limit waits until another ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_of_a_write_respects_limits() {
    let flow = Fixture::with(CHAIN).await;
    connected(&flow).await;
    flow.limit(NAMESPACE, Some("b"), Some(1)).await.expect("limited");
    for _ in 0..2 {
        flow.task().await;
    }
    let firsts = flow.now(2).await;
    flow.complete(&firsts[0], json!(1)).await;
    let limited = flow.next().await;
    let waiting = asleep(&flow, "b").await;
    flow.complete(&firsts[1], json!(1)).await;
    assert_eq!(in_progress(&flow).await, 1);
    assert!(!waiting.is_finished());
    flow.complete(&limited, json!(1)).await;
    let next = waiting.await.expect("no panic");
    assert_eq!((next.token.task, in_progress(&flow).await), (firsts[1].token.task, 1));
}

/// A write that claims does not wait for a limit that another transaction holds, which could be a deadlock: the next
/// poll waits for it.
/// Another transaction holds the limit until the report has returned.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_of_a_write_does_not_wait_for_limits() {
    let flow = Fixture::with(CHAIN).await;
    connected(&flow).await;
    flow.limit(NAMESPACE, Some("b"), Some(1)).await.expect("limited");
    flow.task().await;
    let first = flow.next().await;
    let waiting = asleep(&flow, "b").await;
    let mut holder = flow.db.database().pool().begin().await.expect("begin");
    let hold = flow.db.schema().sql("select from {schema}.step_limit for update");
    sqlx::query(&hold).execute(&mut *holder).await.expect("locked");
    flow.complete(&first, json!(1)).await;
    assert_eq!(in_progress(&flow).await, 0);
    assert!(!waiting.is_finished());
    holder.rollback().await.expect("released");
    assert_eq!(waiting.await.expect("no panic").name, "b");
}

/// Steps of a namespace in shadow mode are not claimed by writes, either.
/// The worker waits for two namespaces.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_does_not_claim_in_a_shadow_namespace() {
    let Some((flow, role)) = counted(CHAIN).await else { return };
    let other = "{name: t, namespace_name: other, identity_strategy: always_unique, steps: [{name: a}]}";
    flow.register(other).await.expect("a template");
    let shadow = NamespaceChange { mode: Some(Mode::Shadow), ..NamespaceChange::default() };
    flow.put_namespace(NAMESPACE, &shadow).await.expect("changed");
    let both = ClaimRequest { namespaces: vec![NAMESPACE.to_owned(), "other".to_owned()], ..worker() };
    let claiming = flow.flow.clone();
    let waiting =
        tokio::spawn(async move { claiming.claim(&both, 1, Some(Instant::now() + PATIENCE)).await.expect("a claim") });
    let sleeps = || flow.health().consumers.iter().any(|it| &*it.name == "steps" && it.asleep == 1);
    eventually("the worker sleeps", async || sleeps()).await;
    flow.task().await;
    assert_eq!((role.calls_matching(SUBMIT_AND_CLAIM).await, in_progress(&flow).await), (0, 0));
    let task = reveille_flow::Submission::new("other", "t", "1.0.0", json!({}));
    let task = flow.submit(task).await.expect("a task").task_uuid;
    let claimed = waiting.await.expect("no panic");
    assert_eq!(claimed.iter().map(|step| step.token.task).collect::<Vec<_>>(), [task]);
}

/// A claim that the database rejects does not fail the writes of its statement.
/// The function of the claim is renamed meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_claim_does_not_fail_the_write() {
    let Some((flow, _role)) = counted(CHAIN).await else { return };
    let rename = async |from: &str, to: &str| {
        let sql = format!("alter function {{schema}}.{from} rename to {to}");
        sqlx::query(flow.db.schema().sql(&sql)).execute(flow.db.database().pool()).await.expect("renamed");
    };
    let waiting = asleep(&flow, "a").await;
    rename("claim_steps", "claim_away").await;
    let task = flow.task().await;
    waiting.await.expect_err("its own claim is rejected as well");
    rename("claim_away", "claim_steps").await;
    assert_eq!(flow.next().await.token.task, task);
}

/// A claimed step that cannot be read does not fail the writes that have committed with the claim, and it is released.
/// The settings of its handler are no JSON meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_step_does_not_fail_the_write() {
    let flow = Fixture::with(CHAIN).await;
    connected(&flow).await;
    let set = async |initialization: &str| {
        let sql = flow.db.schema().sql("update {schema}.definition set initialization = $1");
        sqlx::query(&sql).bind(initialization).execute(flow.db.database().pool()).await.expect("changed");
    };
    let waiting = asleep(&flow, "a").await;
    set("{").await;
    let task = flow.task().await;
    waiting.await.expect_err("its own claim cannot read it, either");
    set("null").await;
    let step = flow.next().await;
    assert_eq!((step.token.task, step.attempt), (task, 1));
}
