//! A server that is short of something: callers are answered in time, and all goes on when it is not any more.
//!
//! The server itself raises each error, by a trigger, as it does when it has no room: under the same SQLSTATE, in the middle of the statement. `reveille`'s own tests fill a real disk.

use std::time::Duration;

use reveille_pg::shortage::{self, Shortage};
use reveille_queue::Error;
use tokio::time::Instant;

use crate::fixture::{Fixture, message, of, push, soon, transactions};

/// How long a push may take while the disk is full: what it is worth waiting, and a busy machine.
const IN_TIME: Duration = Duration::from_secs(15);

/// A push while the disk is full fails in time as something that passes, one more fails at once, and pushes work again as soon as there is room.
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

/// Each other shortage is answered likewise. The server has been short for a while already, so that none is waited for long.
#[tokio::test]
async fn every_shortage_is_told_and_passes() {
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

/// A new partition is made by another statement than the push: a full disk there is answered in time, too.
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
