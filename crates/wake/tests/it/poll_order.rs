//! Which groups poll first, if more want to than concurrent polls are allowed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reveille_pg::Migrator;
use reveille_pg::testing::TestDb;
use reveille_wake::{Channel, Claim, Consumer, Payload, PollRequest, PollResult, Topic, Wake};
use sqlx::PgConnection;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::fixture::{PATIENCE, eventually, options};

/// The group that gets a wake-up; the polls of all others are slow.
const WOKEN: usize = 0;

/// Nothing to claim, and polls that take until the test lets them end.
struct Slow {
    channel: Channel,
    gate: Arc<Semaphore>,
    begun: Arc<AtomicUsize>,
    woken: Arc<AtomicUsize>,
}

impl Claim for Slow {
    type Key = usize;
    type Args = ();
    type Item = ();

    fn topics(&self, key: &usize) -> Vec<Topic> {
        vec![self.channel.topic_of(&key.to_string())]
    }

    async fn poll(&self, _: &mut PgConnection, poll: &PollRequest<usize, ()>) -> reveille_pg::Result<PollResult<()>> {
        if poll.key == WOKEN {
            self.woken.fetch_add(1, Ordering::SeqCst);
        } else {
            self.begun.fetch_add(1, Ordering::SeqCst);
            drop(self.gate.acquire().await);
        }
        Ok(PollResult::next_due_ms(None))
    }

    async fn give_back(&self, _: &mut PgConnection, _: &[()]) -> reveille_pg::Result<()> {
        Ok(())
    }

    async fn sweep(&self, _: &mut PgConnection, _: &[usize]) -> reveille_pg::Result<Vec<usize>> {
        Ok(Vec::new())
    }
}

fn wait(consumer: &Consumer<Slow>, key: usize) {
    let consumer = consumer.clone();
    tokio::spawn(async move { consumer.claim(key, 1, (), Instant::now() + PATIENCE).await.map(drop) });
}

/// With `wake_ups_first`, a group with a wake-up polls although polls for new waiters use all their permits; and no
/// more polls run at a time than allowed.
/// Four concurrent polls, and six new waiters whose polls do not end; then a group that has waited before is woken.
#[tokio::test(flavor = "multi_thread")]
async fn a_woken_group_does_not_queue_behind_new_waiters() {
    for (wake_ups_first, new_waiters) in [(true, 3), (false, 4)] {
        let db = TestDb::new().await;
        Migrator::new(db.schema(), vec![Wake::component()]).run(db.database()).await.expect("create the tables");
        let wake = Wake::start(
            db.database(),
            db.schema(),
            reveille_wake::Options { concurrent_polls: 4, wake_ups_first, ..options() },
        );
        let channel = wake.channel("slow", Payload::Keys);
        let (gate, begun, woken) = (Arc::new(Semaphore::new(0)), Arc::default(), Arc::<AtomicUsize>::default());
        let slow =
            Slow { channel: channel.clone(), gate: gate.clone(), begun: Arc::clone(&begun), woken: woken.clone() };
        let consumer = wake.consumer("slow", slow);
        eventually("the listener is connected", async || wake.health().is_connected()).await;
        wait(&consumer, WOKEN);
        eventually("it has polled", async || woken.load(Ordering::SeqCst) > 0).await;
        for number in 1..=6 {
            wait(&consumer, number);
        }
        eventually("new waiters poll", async || begun.load(Ordering::SeqCst) == new_waiters).await;

        let before = woken.load(Ordering::SeqCst);
        wake.wake_up(&[channel.wake_up_keys([WOKEN.to_string().as_str()])]);
        if !wake_ups_first {
            assert_eq!(begun.load(Ordering::SeqCst), new_waiters, "all permits are taken");
            gate.add_permits(1);
        }
        eventually("the woken group polls", async || woken.load(Ordering::SeqCst) > before).await;
        if wake_ups_first {
            assert_eq!(begun.load(Ordering::SeqCst), new_waiters, "the others still wait for a permit");
        }
        gate.add_permits(100);
        eventually("all groups poll", async || begun.load(Ordering::SeqCst) >= 6).await;
    }
}
