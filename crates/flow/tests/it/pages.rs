//! How much the frequent statements read, in pages, which unlike time are the same on every machine.

use futures_util::future::join_all;
use reveille_flow::{AttemptResult, ClaimedStep, Flow, Options, StepReport};
use reveille_pg::testing::{CountingRole, TestDb, eventually};
use serde_json::json;

use crate::fixture::Fixture;

/// A flow of one connection whose statements are counted.
pub(crate) async fn counted() -> Option<(Fixture, CountingRole)> {
    let db = TestDb::new().await;
    let role = db.counting_role().await?;
    let flow = Flow::open(role.one_connection(), db.schema().clone(), Options::default()).await.expect("open a flow");
    Some((Fixture { db, flow }, role))
}

/// Completes steps, all at once.
pub(crate) async fn complete(flow: &Flow, steps: &[ClaimedStep]) {
    let said = |step: &ClaimedStep| StepReport { token: step.token, result: AttemptResult::Complete(json!(1).into()) };
    let outcomes = flow.report(steps.iter().map(said).collect()).await.expect("an answer");
    assert!(outcomes.len() == steps.len() && outcomes.iter().all(Result::is_ok), "{outcomes:?}");
}

/// The pages that submitting, claiming and completing a chain of two steps read.
async fn one_task(flow: &Fixture, role: &CountingRole) -> [i64; 3] {
    let read = async || {
        let pages = async |statement: &str| role.pages_matching(statement).await;
        [pages("submit_tasks").await, pages("claim_steps(").await, pages("complete_steps").await]
    };
    let before = read().await;
    flow.task().await;
    for name in ["a", "b"] {
        let steps = flow.now(1).await;
        assert_eq!(steps[0].name, name);
        complete(flow, &steps).await;
    }
    let after = read().await;
    [0, 1, 2].map(|at| after[at] - before[at])
}

/// A plan that was made while the tables were small must be as good when they have grown.
/// The tables are analyzed after the first task, and grow until the measured one.
#[tokio::test]
async fn a_step_costs_the_same_when_the_tables_have_grown() {
    const GROWN: usize = 3_000;
    let Some((flow, role)) = counted().await else { return };
    flow.template("t", "[{name: a}, {name: b, dependencies: [a]}]").await;
    one_task(&flow, &role).await;
    flow.db.analyze().await;
    let small = one_task(&flow, &role).await;
    for _ in 0..GROWN / 500 {
        join_all((0..500).map(|_| flow.task())).await;
        for _ in 0..2 {
            let steps = flow.now(500).await;
            assert_eq!(steps.len(), 500);
            complete(&flow, &steps).await;
        }
    }
    eventually("a plan that fits the tables", async || {
        let grown = one_task(&flow, &role).await;
        println!("from {small:?} to {grown:?} pages");
        small.into_iter().zip(grown).all(|(small, grown)| small > 0 && grown > 0 && grown < small + 200)
    })
    .await;
}

/// The cost of a step does not depend on the width of its task: to submit it, to claim it, and to complete it.
/// The tables are new and without statistics: a plan that finds steps by their task alone seems as good as any.
#[tokio::test]
async fn a_step_costs_the_same_in_a_wide_task() {
    const WIDE: usize = 1_000;
    const PAGES: i64 = 100;
    let Some((flow, role)) = counted().await else { return };
    let names: Vec<String> = (0..WIDE).map(|step| format!("s{step}")).collect();
    let branches: Vec<String> = names.iter().map(|name| format!("{{name: {name}, dependencies: [a]}}")).collect();
    flow.template(
        "t",
        &format!("[{{name: a}}, {}, {{name: z, dependencies: [{}]}}]", branches.join(", "), names.join(", ")),
    )
    .await;
    flow.task().await;
    let pages = role.pages_matching("submit_tasks").await;
    assert!((1..PAGES * WIDE as i64).contains(&pages), "{pages} pages to submit {WIDE} steps");

    assert_eq!(flow.run().await, ["a"]);
    let before = (role.pages_matching("claim_steps(").await, role.pages_matching("complete_steps").await);
    let steps = flow.now(WIDE / 5).await;
    assert_eq!(steps.len(), WIDE / 5);
    complete(&flow, &steps).await;
    let claimed = role.pages_matching("claim_steps(").await - before.0;
    let ended = role.pages_matching("complete_steps").await - before.1;
    let most = PAGES * steps.len() as i64;
    assert!((1..most).contains(&claimed), "{claimed} pages to claim {} steps", steps.len());
    assert!((1..most).contains(&ended), "{ended} pages to end {} steps", steps.len());
}

/// A long transaction keeps every version of every step, and polls must not read these dead tuples: neither those of
/// current leases, nor those of leases that were ended early.
#[tokio::test]
async fn dead_tuples_kept_by_an_old_transaction_are_not_read() {
    const POLLS: i64 = 100;
    const TASKS: usize = 3_000;
    let Some((flow, role)) = counted().await else { return };
    flow.template("t", "[{name: a}]").await;
    let old = flow.db.old_transaction().await;
    for _ in 0..TASKS / 500 {
        join_all((0..500).map(|_| flow.task())).await;
        complete(&flow, &flow.now(500).await).await;
    }
    let polls = async || {
        let before = role.pages_matching("claim_steps(").await;
        for _ in 0..POLLS {
            assert!(flow.now(1).await.is_empty());
        }
        role.pages_matching("claim_steps(").await - before
    };
    // The most recent dead tuples are read until they are older.
    eventually("it is old", async || polls().await < POLLS * 60).await;
    // One poll of twenty may scan everything, which is more than three times as much.
    let pages = polls().await;
    println!("{POLLS} looks read {pages} pages");
    assert!((1..POLLS * 60).contains(&pages), "{pages}");
    old.rollback().await.expect("it ends");
}
