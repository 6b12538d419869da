//! Product code that panics, and a runtime that shuts down: no other caller is left waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reveille_pg::Sql;
use reveille_pg::testing::TestDb;
use reveille_wake::{Channel, Claim, Error, Payload, PollRequest, PollResult, Topic, Wake, WriterOptions};
use sqlx::PgConnection;
use tokio::time::{Instant, timeout};

use crate::fixture::{OtherProgram, PATIENCE, eventually, options};
use crate::writer::{PANICS, batch_is_running, marks};

/// Each poll after the second sweep finds an item; the first poll and the first sweep panic.
struct Clumsy {
    channel: Channel,
    polls: Arc<AtomicUsize>,
    sweeps: Arc<AtomicUsize>,
    one: Sql,
}

impl Claim for Clumsy {
    type Key = ();
    type Args = ();
    type Item = i32;

    fn topics(&self, (): &()) -> Vec<Topic> {
        vec![self.channel.topic()]
    }

    async fn poll(&self, conn: &mut PgConnection, poll: &PollRequest<(), ()>) -> reveille_pg::Result<PollResult<i32>> {
        let one: i32 = sqlx::query_scalar(&self.one).fetch_one(conn).await?;
        match self.polls.fetch_add(1, Ordering::SeqCst) {
            0 => panic!("the first poll of a test"),
            // Nothing yet: the waiter is served after the sweep that follows the one that panics.
            _ if self.sweeps.load(Ordering::SeqCst) < 2 => Ok(PollResult::new(None)),
            _ => Ok(PollResult::new(None).deal(poll, vec![one], None)),
        }
    }

    async fn give_back(&self, _: &mut PgConnection, _: &[i32]) -> reveille_pg::Result<()> {
        Ok(())
    }

    async fn sweep(&self, _: &mut PgConnection, _: &[()]) -> reveille_pg::Result<Vec<usize>> {
        match self.sweeps.fetch_add(1, Ordering::SeqCst) {
            0 => panic!("the first sweep of a test"),
            _ => Ok(vec![0]),
        }
    }
}

/// A claim that panics counts as a failed poll, and a sweep that panics as one that found nothing: both are repeated.
/// Polls find nothing before the sweep that follows the one that panicked.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_panics_is_retried() {
    let db = TestDb::new().await;
    let often = reveille_wake::Options { fallback_poll_interval: Duration::from_millis(300), ..options() };
    let wake = Wake::start(db.database(), db.schema(), often);
    let channel = wake.channel("ones", Payload::Empty);
    let (polls, sweeps) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let one = db.schema().sql("select 1");
    let ones = wake.consumer("ones", Clumsy { channel, polls: polls.clone(), sweeps: sweeps.clone(), one });
    let claimed = ones.claim((), 1, (), Instant::now() + PATIENCE).await.expect("a claim").expect("a one");
    assert_eq!(claimed.accept(), [1]);
    assert!(polls.load(Ordering::SeqCst) >= 3 && sweeps.load(Ordering::SeqCst) >= 2);
    assert!(ones.counts().failed_polls >= 1);
}

/// The writes of a batch that panics have an unknown outcome; later writes are sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_panics_does_not_stop_the_next() {
    let db = TestDb::new().await;
    let marks = marks(&db, db.database(), WriterOptions { max_writes: 1, ..WriterOptions::default() }).await;
    let (clumsy, next) = tokio::join!(marks.submit(PANICS), marks.submit(1));
    assert!(matches!(clumsy, Err(Error::Unknown { .. })), "{clumsy:?}");
    assert_eq!(next.expect("an outcome"), 1);
    timeout(PATIENCE, marks.close()).await.expect("nothing is in progress");
}

/// A runtime that shuts down during a batch ends that batch and the pending writes, and nothing else: the process goes
/// on, and the writer rejects further writes at once.
/// The runtime is dropped while the first of three slow batches is being sent.
#[test]
fn pending_writes_end_with_their_runtime() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (_db, marks) = runtime.block_on(async {
        let db = TestDb::new().await;
        let marks = marks(&db, db.database(), WriterOptions { max_writes: 1, ..WriterOptions::default() }).await;
        for number in 0..3 {
            let marks = marks.clone();
            tokio::spawn(async move { marks.submit(number).await });
        }
        batch_is_running(&db).await;
        let waiting = OtherProgram::of(&db).await;
        drop(waiting);
        (db, marks)
    });
    runtime.shutdown_background();
    let another = tokio::runtime::Runtime::new().expect("a runtime");
    another.block_on(async {
        eventually("the senders are gone", async || {
            let refused = timeout(Duration::from_millis(500), marks.submit(9)).await;
            matches!(refused, Ok(Err(Error::Closed { .. })))
        })
        .await;
    });
}
