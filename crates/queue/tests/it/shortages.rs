//! A server without some resource: callers are answered in time, and everything works again when it is available.
//!
//! A trigger raises each error as the server does: with the same SQLSTATE, in the middle of the statement. The tests of
//! `reveille` fill a real disk.

use std::time::Duration;

use reveille_pg::shortage::{self, Shortage};
use reveille_queue::Error;
use tokio::time::Instant;

use crate::fixture::{Fixture, message, of, push, soon, transactions};

/// How long a push may take while the disk is full: the retries, and a busy machine.
const IN_TIME: Duration = Duration::from_secs(15);

/// A push while the disk is full fails in time as transient, another one fails at once, and pushes work again as soon
/// as there is space.
#[tokio::test]
async fn a_push_to_a_full_disk_fails_in_time() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["before"]).await;
    queues.db.fail_writes("segment", "53100").await;
    let since = Instant::now();
    for attempt in ["first", "second", "third"] {
        let failed = queues.push(vec![message("q", "p", attempt)]).await.expect_err("the disk is full");
        let Error::Wake(error) = &failed else { panic!("{failed:?}") };
        assert_eq!(error.database().and_then(reveille_pg::Error::shortage), Some(Shortage::DiskFull), "{failed:?}");
        assert!(failed.is_transient() && since.elapsed() < IN_TIME, "{:?}", since.elapsed());
    }
    assert!(shortage::is_lasting());
    assert_eq!(shortage::current(), Some(Shortage::DiskFull));
    queues.db.allow_writes("segment").await;
    push(&queues, "q", "p", &["after"]).await;
    assert_eq!(shortage::current(), None);
    assert_eq!(transactions(&soon(&queues, of("q", "g", 9)).await), ["before", "after"]);
}

/// Every other shortage is reported in the same way. The shortage exists already, so that no push waits for long.
#[tokio::test]
async fn every_shortage_is_transient() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["before"]).await;
    queues.db.fail_writes("segment", "53100").await;
    queues.push(vec![message("q", "p", "1")]).await.expect_err("the disk is full");
    for (code, expected) in
        [("53200", Shortage::Memory), ("53400", Shortage::Resources), ("58030", Shortage::InputOutput)]
    {
        queues.db.fail_writes("segment", code).await;
        let failed = queues.push(vec![message("q", "p", code)]).await.expect_err("short");
        let Error::Wake(error) = &failed else { panic!("{failed:?}") };
        assert_eq!(error.database().and_then(reveille_pg::Error::shortage), Some(expected), "{failed:?}");
        assert!(failed.is_transient());
    }
    queues.db.allow_writes("segment").await;
    push(&queues, "q", "p", &["after"]).await;
    assert_eq!(shortage::current(), None);
}

/// A new partition is created by a statement of its own: a full disk there is reported in time, too.
#[tokio::test]
async fn a_push_to_a_new_queue_on_a_full_disk_fails_in_time() {
    let queues = Fixture::new().await;
    queues.db.fail_writes("partition", "53100").await;
    let since = Instant::now();
    let failed = queues.push(vec![message("q", "p", "1")]).await.expect_err("the disk is full");
    assert!(matches!(&failed, Error::Database(error) if error.shortage() == Some(Shortage::DiskFull)), "{failed:?}");
    assert!(failed.is_transient() && since.elapsed() < IN_TIME, "{:?}", since.elapsed());
    queues.db.allow_writes("partition").await;
    push(&queues, "q", "p", &["1"]).await;
}
