//! How much a pop reads, in pages, which unlike time are the same on every machine.

use std::ops::Range;

use futures_util::future::join_all;
use reveille_pg::testing::{CountingRole, TestDb, eventually};
use reveille_queue::{AckStatus, Options, PushStatus, Queues, Seek};
use uuid::Uuid;

use crate::fixture::{end, message, now, of};

/// Queues of one connection whose statements are counted.
async fn counted() -> Option<(TestDb, Queues, CountingRole)> {
    counted_with(Options::default()).await
}

async fn counted_with(options: Options) -> Option<(TestDb, Queues, CountingRole)> {
    let db = TestDb::new().await;
    let role = db.counting_role().await?;
    let queues = Queues::open(role.one_connection(), db.schema().clone(), options).await.expect("open queues");
    Some((db, queues, role))
}

/// Pushes, pops and acks a message in each of some partitions; returns the pages that each of the three has read.
async fn through(queues: &Queues, role: &CountingRole, partitions: Range<usize>) -> [i64; 3] {
    let read = async || {
        let pages = async |statement: &str| role.pages_matching(statement).await;
        [pages(".push(").await, pages(".claim(").await, pages(".ack_leases(").await]
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

/// A plan that was made while the tables were small must be as good when they have grown.
/// The tables are analyzed after the first message, and grow until the measured one.
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

/// A long transaction keeps every version of every cursor, and polls must not read these dead tuples: neither those of
/// current leases, nor those of leases that were ended early.
#[tokio::test]
async fn dead_tuples_kept_by_an_old_transaction_are_not_read() {
    const POLLS: i64 = 100;
    const PARTITIONS: usize = 250;
    const ROUNDS: usize = 12;
    let Some((db, queues, role)) = counted().await else { return };
    let old = db.old_transaction().await;
    for _ in 0..ROUNDS {
        through(&queues, &role, 0..PARTITIONS).await;
    }
    let polls = async || {
        let before = role.pages_matching(".claim(").await;
        for _ in 0..POLLS {
            assert!(now(&queues, of("q", "g", 1)).await.is_none());
        }
        role.pages_matching(".claim(").await - before
    };
    // The most recent dead tuples are read until they are older.
    eventually("it is old", async || polls().await < POLLS * 60).await;
    // One poll of twenty may scan everything, which is more than three times as much.
    let pages = polls().await;
    println!("{POLLS} looks read {pages} pages");
    assert!((1..POLLS * 60).contains(&pages), "{pages}");
    old.rollback().await.expect("it ends");
}

/// The pages of a push, a pop and an ack must not depend on the size of the partition.
/// A partition gets 50 000 segments after the first message; its group moves to the end, and one more message follows.
#[tokio::test]
async fn a_message_costs_the_same_in_a_large_partition() {
    const SEGMENTS: usize = 50_000;
    let Some((db, queues, role)) = counted().await else { return };
    for _ in 0..2 {
        through(&queues, &role, 0..1).await;
    }
    let small = through(&queues, &role, 0..1).await;
    let more = format!(
        "insert into {{schema}}.segment
         select s.partition_id, s.next_offset + n, s.next_offset + n + 1, s.created_at, false, array[n::bigint], s.ids, s.transaction_ids, null, null, s.payloads
         from (select * from {{schema}}.segment order by first_offset desc limit 1) s cross join generate_series(0, {SEGMENTS} - 1) as n"
    );
    sqlx::query(db.schema().sql(&more)).execute(db.database().pool()).await.expect("a large partition");
    queues.seek("g", "q", None, Seek::End).await.expect("moved");
    db.analyze().await;
    // The first push loads the hashes that others have appended, once.
    eventually("no more pages than in a small partition", async || {
        let large = through(&queues, &role, 0..1).await;
        println!("from {small:?} to {large:?} pages");
        small.into_iter().zip(large).all(|(small, large)| small > 0 && large > 0 && large < small + 40)
    })
    .await;
}

/// A partition with more messages than the dedup cache holds must not be read again by every push, and a duplicate of a
/// recent message must be recognised.
/// Room for 8 000 hashes, and a partition of three times as many: the statement that reads hashes is sent once. Then
/// another process starts, and reads only the newest.
#[tokio::test]
async fn a_push_to_a_partition_of_any_size_does_not_read_it_again() {
    let small = || Options::default().dedup_cache_bytes(8_000 * 24);
    let Some((db, queues, role)) = counted_with(small()).await else { return };
    let name = |number: usize| message("q", "p", &number.to_string());
    let reads = async || role.pages_matching("h.hashes").await;
    queues.push(vec![name(0)]).await.expect("pushed");
    let before = reads().await;
    for from in (0..24_000).step_by(500) {
        queues.push((from + 1..=from + 500).map(name).collect()).await.expect("pushed");
    }
    assert_eq!(reads().await, before, "nothing was read again");
    let again = queues.push(vec![name(24_000), name(24_001)]).await.expect("pushed");
    assert_eq!(
        again.iter().map(|pushed| &pushed.status).collect::<Vec<_>>(),
        [&PushStatus::Duplicate, &PushStatus::Queued]
    );
    drop(queues);
    let other = Queues::open(role.one_connection(), db.schema().clone(), small()).await.expect("open queues");
    let again = other.push(vec![name(24_001)]).await.expect("pushed");
    assert_eq!(again[0].status, PushStatus::Duplicate);
    let read = reads().await - before;
    let all = sqlx::query_scalar::<_, i64>(&db.schema().sql("select count(*) from {schema}.segment"));
    let all = all.fetch_one(db.database().pool()).await.expect("a number");
    println!("{read} pages read of a partition of {all} segments");
    assert!(read > 0 && read < 200, "{read}");
}
