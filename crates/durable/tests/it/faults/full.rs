//! A full disk: no turn and no activity fails because of it, and all goes on when there is room.

use reveille_durable::PostgresProvider;
use reveille_pg::shortage;
use reveille_pg::testing::{TestDb, eventually};

use super::{LEASE, options};
use crate::calls::{Done, ack, fetch, send, start};

/// An ack while the disk is full gives the runtime no error, which would fail the workflow: it goes on until there is
/// room, and happens once.
/// A trigger raises the server's error for whatever is written into the history; it is dropped when the server counts
/// as short for long, which no further attempt waits for.
#[tokio::test(flavor = "multi_thread")]
async fn an_ack_waits_for_room_on_a_full_disk() {
    let db = TestDb::new().await;
    let provider =
        PostgresProvider::connect(db.url(), options(db.schema()).pipelined_acks(0)).await.expect("a provider");
    send(&provider, start("i", "")).await;
    let (_, token, _) = fetch(&provider, LEASE).await;
    db.fail_writes("history", "53100").await;
    let acking = tokio::spawn({
        let provider = provider.clone();
        async move { ack(&provider, &token, Done::first("i", "")).await }
    });
    eventually("the disk has been full for long", async || shortage::is_lasting()).await;
    assert!(!acking.is_finished(), "{:?}", acking.await);
    db.allow_writes("history").await;
    acking.await.expect("no panic").expect("acked");
    assert_eq!(shortage::current(), None);
    let events = db.schema().sql("select count(*) from {schema}.history");
    let events: i64 = sqlx::query_scalar(&events).fetch_one(db.database().pool()).await.expect("a number");
    assert_eq!(events, 1);
}
