//! A product's own code that panics, and a runtime that goes away: nobody else is left waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pg::Sql;
use pg::testing::TestDb;
use sqlx::PgConnection;
use tokio::time::{Instant, timeout};
use wake::{Channel, Claim, Error, Payload, PollRequest, PollResult, Topic, Wake, WriterOptions};

use crate::fixture::{PATIENCE, Stranger, eventually, options};
use crate::writer::{PANICS, marks, under_way};

/// Ones: each look after the second sweep finds one; its first and the first sweep panic.
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

    async fn poll(&self, conn: &mut PgConnection, poll: &PollRequest<(), ()>) -> pg::Result<PollResult<i32>> {
        let one: i32 = sqlx::query_scalar(&self.one).fetch_one(conn).await?;
        match self.polls.fetch_add(1, Ordering::SeqCst) {
            0 => panic!("the first look of a test"),
            // Nothing yet, however often it looks: who waits now is found by a sweep after the one that panics.
            _ if self.sweeps.load(Ordering::SeqCst) < 2 => Ok(PollResult::new(None)),
            _ => Ok(PollResult::new(None).deal(poll, vec![one], None)),
        }
    }

    async fn give_back(&self, _: &mut PgConnection, _: &[i32]) -> pg::Result<()> {
        Ok(())
    }

    async fn sweep(&self, _: &mut PgConnection, _: &[()]) -> pg::Result<Vec<usize>> {
        match self.sweeps.fetch_add(1, Ordering::SeqCst) {
            0 => panic!("the first sweep of a test"),
            _ => Ok(vec![0]),
        }
    }
}

/// A claim that panics is a look that failed, and a sweep that panics one that found nothing: both are made again.
/// Looks find nothing before the sweep after the one that panicked.
#[tokio::test(flavor = "multi_thread")]
async fn a_panic_of_a_claim_is_a_failure_like_any_other() {
    let db = TestDb::new().await;
    let often = wake::Options { fallback_poll_interval: Duration::from_millis(300), ..options() };
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

/// A flight that panics has an unknown outcome for who was in it; who comes after it flies.
#[tokio::test(flavor = "multi_thread")]
async fn a_panic_of_a_flight_does_not_ground_the_next() {
    let db = TestDb::new().await;
    let marks = marks(&db, db.database(), WriterOptions { max_writes: 1, ..WriterOptions::default() }).await;
    let (clumsy, next) = tokio::join!(marks.submit(PANICS), marks.submit(1));
    assert!(matches!(clumsy, Err(Error::Unknown { .. })), "{clumsy:?}");
    assert_eq!(next.expect("an outcome"), 1);
    timeout(PATIENCE, marks.close()).await.expect("nothing is left under way");
}

/// A runtime that goes away with a flight in the air and members waiting takes them with it, and nothing else: the process lives,
/// and whoever still holds the flights is refused at once.
/// The runtime is dropped while the first of three slow flights is in the air.
#[test]
fn flights_end_with_their_runtime() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (_db, marks) = runtime.block_on(async {
        let db = TestDb::new().await;
        let marks = marks(&db, db.database(), WriterOptions { max_writes: 1, ..WriterOptions::default() }).await;
        for number in 0..3 {
            let marks = marks.clone();
            tokio::spawn(async move { marks.submit(number).await });
        }
        under_way(&db).await;
        let waiting = Stranger::of(&db).await;
        drop(waiting);
        (db, marks)
    });
    runtime.shutdown_background();
    let another = tokio::runtime::Runtime::new().expect("a runtime");
    another.block_on(async {
        eventually("the lanes are gone", async || {
            let refused = timeout(Duration::from_millis(500), marks.submit(9)).await;
            matches!(refused, Ok(Err(Error::Closed { .. })))
        })
        .await;
    });
}
