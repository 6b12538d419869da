//! How much a pop reads: pages, which unlike time are the same on every machine.

use std::ops::Range;

use futures_util::future::join_all;
use pg::testing::{CountingRole, TestDb, eventually};
use queue::{AckStatus, Options, Queues};
use uuid::Uuid;

use crate::fixture::{end, message, now, of};

/// Queues of one connection whose statements are counted.
async fn counted() -> Option<(TestDb, Queues, CountingRole)> {
    let db = TestDb::new().await;
    let role = db.counting_role().await?;
    let queues =
        Queues::open(role.one_connection(), db.schema().clone(), Options::default()).await.expect("open queues");
    Some((db, queues, role))
}

/// A message in each of some partitions, pushed, popped and acked: pages that pushing, popping and acking have read.
async fn through(queues: &Queues, role: &CountingRole, partitions: Range<usize>) -> [i64; 3] {
    let read = async || {
        let pages = async |statement: &str| role.pages_matching(statement).await;
        [pages(".push(").await, pages(".claim(").await, pages(".finish(").await]
    };
    let before = read().await;
    let one = |number: usize| message("q", &number.to_string(), &Uuid::now_v7().to_string());
    queues.push(partitions.clone().map(one).collect()).await.expect("pushed");
    let popped = join_all(partitions.clone().map(|_| now(queues, of("q", "g", 1)))).await;
    assert!(popped.iter().all(Option::is_some));
    join_all(popped.iter().flatten().map(|batch| end(queues, batch, AckStatus::Completed))).await;
    let after = read().await;
    [0, 1, 2].map(|at| after[at] - before[at])
}

/// A plan that was made while the tables were small, and known to be, is as good when they have grown.
/// They are analyzed after the first message, and grow until the one that is measured.
#[tokio::test]
async fn a_message_costs_the_same_when_the_tables_have_grown() {
    const GROWN: usize = 2_000;
    let Some((db, queues, role)) = counted().await else { return };
    through(&queues, &role, 0..1).await;
    db.analyze().await;
    let small = through(&queues, &role, 0..1).await;
    for first in (1..GROWN).step_by(250) {
        through(&queues, &role, first..first + 250).await;
    }
    eventually("a plan that fits the tables", async || {
        let grown = through(&queues, &role, 0..1).await;
        println!("from {small:?} to {grown:?} pages");
        small.into_iter().zip(grown).all(|(small, grown)| small > 0 && grown > 0 && grown < small + 200)
    })
    .await;
}

/// Somebody's old transaction keeps every version of every cursor, and looks do not wade through them: neither through what was leased, nor
/// through the leases that have ended before their time.
#[tokio::test]
async fn what_an_old_transaction_keeps_is_not_read() {
    const LOOKS: i64 = 100;
    const PARTITIONS: usize = 250;
    const ROUNDS: usize = 12;
    let Some((db, queues, role)) = counted().await else { return };
    let old = db.old_transaction().await;
    for _ in 0..ROUNDS {
        through(&queues, &role, 0..PARTITIONS).await;
    }
    let looks = async || {
        let before = role.pages_matching(".claim(").await;
        for _ in 0..LOOKS {
            assert!(now(&queues, of("q", "g", 1)).await.is_none());
        }
        role.pages_matching(".claim(").await - before
    };
    // The last of it is read until it is no longer recent.
    eventually("it is old", async || looks().await < LOOKS * 60).await;
    // One of twenty may have to read everything, which is three times as much and more.
    let pages = looks().await;
    println!("{LOOKS} looks read {pages} pages");
    assert!((1..LOOKS * 60).contains(&pages), "{pages}");
    old.rollback().await.expect("it ends");
}
