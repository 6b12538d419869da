//! Whose turn it is to look, when there are more groups than looks at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pg::Migrator;
use pg::testing::TestDb;
use sqlx::PgConnection;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use wake::{Channel, Claim, Consumer, Payload, PollRequest, PollResult, Topic, Wake};

use crate::fixture::{PATIENCE, eventually, options};

/// The group that somebody rings; all others find their look slow.
const RUNG: usize = 0;

/// Nothing to claim, and looks that take until a test lets them end.
struct Slow {
    channel: Channel,
    gate: Arc<Semaphore>,
    begun: Arc<AtomicUsize>,
    rung: Arc<AtomicUsize>,
}

impl Claim for Slow {
    type Key = usize;
    type Args = ();
    type Item = ();

    fn topics(&self, key: &usize) -> Vec<Topic> {
        vec![self.channel.topic_of(&key.to_string())]
    }

    async fn poll(&self, _: &mut PgConnection, poll: &PollRequest<usize, ()>) -> pg::Result<PollResult<()>> {
        if poll.key == RUNG {
            self.rung.fetch_add(1, Ordering::SeqCst);
        } else {
            self.begun.fetch_add(1, Ordering::SeqCst);
            drop(self.gate.acquire().await);
        }
        Ok(PollResult::next_due_ms(None))
    }

    async fn give_back(&self, _: &mut PgConnection, _: &[()]) -> pg::Result<()> {
        Ok(())
    }

    async fn sweep(&self, _: &mut PgConnection, _: &[usize]) -> pg::Result<Vec<usize>> {
        Ok(Vec::new())
    }
}

fn wait(consumer: &Consumer<Slow>, key: usize) {
    let consumer = consumer.clone();
    tokio::spawn(async move { consumer.claim(key, 1, (), Instant::now() + PATIENCE).await.map(drop) });
}

/// A group that was rung must look while newcomers use all the looks that are theirs, if it is to come first; and no more looks are made at a time than
/// were asked for.
/// Four looks at a time, and six newcomers whose looks do not end; then a group is rung that waits since before.
#[tokio::test(flavor = "multi_thread")]
async fn a_rung_group_does_not_queue_behind_newcomers() {
    for (wake_ups_first, newcomers) in [(true, 3), (false, 4)] {
        let db = TestDb::new().await;
        Migrator::new(db.schema(), vec![Wake::component()]).run(db.database()).await.expect("make the engine's tables");
        let wake =
            Wake::start(db.database(), db.schema(), wake::Options { concurrent_polls: 4, wake_ups_first, ..options() });
        let channel = wake.channel("slow", Payload::Keys);
        let (gate, begun, rung) = (Arc::new(Semaphore::new(0)), Arc::default(), Arc::<AtomicUsize>::default());
        let slow = Slow { channel: channel.clone(), gate: gate.clone(), begun: Arc::clone(&begun), rung: rung.clone() };
        let consumer = wake.consumer("slow", slow);
        eventually("the listener hears", async || wake.health().is_connected()).await;
        wait(&consumer, RUNG);
        eventually("it has looked", async || rung.load(Ordering::SeqCst) > 0).await;
        for new_waiter in 1..=6 {
            wait(&consumer, new_waiter);
        }
        eventually("newcomers look", async || begun.load(Ordering::SeqCst) == newcomers).await;

        let before = rung.load(Ordering::SeqCst);
        wake.wake_up(&[channel.wake_up_keys([RUNG.to_string().as_str()])]);
        if !wake_ups_first {
            assert_eq!(begun.load(Ordering::SeqCst), newcomers, "all turns are taken");
            gate.add_permits(1);
        }
        eventually("the rung group looks", async || rung.load(Ordering::SeqCst) > before).await;
        if wake_ups_first {
            assert_eq!(begun.load(Ordering::SeqCst), newcomers, "the others still wait for their turn");
        }
        gate.add_permits(100);
        eventually("everybody looks", async || begun.load(Ordering::SeqCst) >= 6).await;
    }
}
