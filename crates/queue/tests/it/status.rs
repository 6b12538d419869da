//! Status of the process and the database for consoles.

use crate::fixture::{Fixture, of, push, soon};

/// The process reports its waiters and deliveries; the database its version and contents.
#[tokio::test]
async fn the_process_and_the_database_are_shown() {
    let queues = Fixture::new().await;
    let (_, ()) = tokio::join!(soon(&queues, of("q", "g", 1)), async {
        reveille_pg::testing::eventually("a pop waits", async || queues.process().waiting == 1).await;
        push(&queues, "q", "p", &["1"]).await;
    });
    let process = queues.process();
    assert_eq!((process.waiting, process.pops.items), (0, 1));
    assert!(process.uptime.as_nanos() > 0);
    let database = queues.database().await.expect("asked");
    assert!(database.bytes > 0 && database.connections > 0 && !database.version.is_empty(), "{database:?}");
    assert!(database.tables.iter().any(|table| table.name == "segment" && table.bytes > 0), "{database:?}");
}
