//! A claim reads existing steps, not all names and priorities that were ever used.

use std::cell::Cell;
use std::fmt::Write as _;

use reveille_flow::{ClaimRequest, Flow, Options, Submission};
use reveille_pg::testing::{CountingRole, eventually};
use serde_json::json;

use crate::fixture::{Fixture, NAMESPACE, submission, worker};
use crate::pages::{complete, counted};

/// Names, or priorities, that were used before.
const USED: usize = 1_000;
/// How many more pages these claims may read: tables and indexes have grown, and plans may be made. A lookup for each
/// name or priority would read thousands.
const MORE: i64 = 500;

/// Claims of three kinds: all names, some names, and all names with a limit on one.
fn by_name() -> ClaimRequest {
    ClaimRequest { steps: Some(vec!["a".to_owned(), "b".to_owned()]), ..worker() }
}

/// The pages that the claims of one task of two steps read.
async fn claimed(flow: &Flow, role: &CountingRole, request: &ClaimRequest) -> i64 {
    flow.submit(submission("t", json!({}))).await.expect("a task");
    let before = role.pages_matching("claim_steps(").await;
    for name in ["a", "b"] {
        let steps = flow.claim(request, 1, None).await.expect("a claim");
        assert_eq!(steps.iter().map(|step| &step.name).collect::<Vec<_>>(), [name]);
        complete(flow, &steps).await;
    }
    assert!(flow.claim(request, 1, None).await.expect("a claim").is_empty());
    role.pages_matching("claim_steps(").await - before
}

/// The pages of all kinds of claims, each in a process without earlier claims.
async fn claims(flow: &Fixture, role: &CountingRole) -> [i64; 3] {
    let mut pages = [0; 3];
    for (position, request) in [worker(), by_name(), worker()].iter().enumerate() {
        let fresh = Flow::open(role.one_connection(), flow.db.schema().clone(), Options::default());
        let fresh = fresh.await.expect("open a flow");
        let limit = (position == 2).then_some(1);
        fresh.limit(NAMESPACE, Some("limited"), limit).await.expect("a limit");
        // The first makes plans.
        pages[position] = claimed(&fresh, role, request).await.min(claimed(&fresh, role, request).await);
        fresh.close().await;
    }
    flow.limit(NAMESPACE, Some("limited"), None).await.expect("no limit");
    pages
}

/// A namespace with the template `t` of two steps, and what its claims read.
async fn started() -> Option<(Fixture, CountingRole, [i64; 3])> {
    let (flow, role) = counted().await?;
    flow.template("t", "[{name: a}, {name: b, dependencies: [a]}]").await;
    flow.template("l", "[{name: limited}]").await;
    let before = claims(&flow, &role).await;
    Some((flow, role, before))
}

/// Claims read about as much as before, once no transaction of another test keeps dead tuples.
async fn unchanged(flow: &Fixture, role: &CountingRole, before: [i64; 3], after: &str) {
    flow.db.analyze().await;
    eventually("claims that read what is there", async || {
        let now = claims(flow, role).await;
        println!("claims by all names, by name, beside a limit: from {before:?} to {now:?} pages after {after}");
        before.iter().zip(now).all(|(before, now)| *before > 0 && now > 0 && now <= before + MORE)
    })
    .await;
}

/// A task of many steps of different names, all of them ready, that was cancelled costs later claims nothing.
#[tokio::test]
async fn claims_cost_the_same_after_a_wide_task_was_cancelled() {
    let Some((flow, role, before)) = started().await else { return };
    let mut steps = String::new();
    (0..USED).for_each(|step| write!(steps, "{{name: s{step}}}, ").expect("a text"));
    flow.template("wide", &format!("[{steps}]")).await;
    let task = flow.submit(submission("wide", json!({}))).await.expect("a task").task_uuid;
    flow.cancel(task, crate::manual::who()).await.expect("cancelled");
    unchanged(&flow, &role, before, "a wide task").await;
}

/// Priorities that were used before cost later claims nothing.
#[tokio::test]
async fn claims_cost_the_same_after_many_priorities_were_used() {
    let Some((flow, role, before)) = started().await else { return };
    for priority in 1..=(USED / 10) as i16 {
        let task = Submission { priority, ..submission("t", json!({})) };
        flow.submit(task).await.expect("a task");
        for _ in 0..2 {
            complete(&flow, &flow.now(1).await).await;
        }
    }
    unchanged(&flow, &role, before, "many priorities").await;
}

/// A step of a chain costs about the same at every position, although it gets the results of all steps before it: these
/// are read by range.
#[tokio::test]
async fn a_step_of_a_chain_costs_the_same_at_every_position() {
    const STEPS: usize = 60;
    const MEASURED: usize = 4;
    let Some((flow, role)) = counted().await else { return };
    let mut steps = String::from("{name: c0}");
    (1..STEPS).for_each(|step| {
        write!(steps, ", {{name: c{step}, dependencies: [c{}]}}", step - 1).expect("a text");
    });
    flow.template("t", &format!("[{steps}]")).await;
    let run = async |positions: std::ops::Range<usize>| {
        let before = role.pages_matching("claim_steps(").await;
        for position in positions {
            let steps = flow.now(1).await;
            let results = crate::fixture::read(&steps[0].results);
            assert_eq!(results.as_object().map(serde_json::Map::len), Some(position), "all results before it");
            complete(&flow, &steps).await;
        }
        role.pages_matching("claim_steps(").await - before
    };
    // An old transaction of another test keeps every row version of these steps; the next chain is measured without it.
    let chains = Cell::new(0);
    eventually("a late step that reads about as much as an early one", async || {
        flow.submit(submission("t", json!({ "chain": chains.replace(chains.get() + 1) }))).await.expect("a task");
        run(0..4).await;
        let early = run(4..4 + MEASURED).await;
        run(4 + MEASURED..STEPS - MEASURED).await;
        let late = run(STEPS - MEASURED..STEPS).await;
        println!("{MEASURED} claims read from {early} to {late} pages");
        // The row versions of each step that vacuum has not removed yet. A lookup for each result would read fourteen
        // pages.
        let more = (MEASURED * STEPS * 5) as i64;
        early > 0 && late < early + more
    })
    .await;
}
