//! Items 3 to 5, by the clock. No other test runs at the same time.

use std::time::Duration;

use duroxide::providers::Provider;
use reveille_durable::{AggressiveOn, LongPollConfig, Strategy};
use reveille_pg::testing::TestDb;
use tokio::time::Instant;

use super::{calm_by, connected, fetch, send, start, waiter, waiting};
use crate::fixture::{Elsewhere, provider};

/// What "at once" may take: the design asks for half a second.
const AT_ONCE: Duration = Duration::from_millis(500);
/// How late a timer may be: below what polling at the interval of the design would give.
const LATE: Duration = Duration::from_millis(50);
/// The delay of the timers.
const DELAY: Duration = Duration::from_millis(500);
/// Timers of which the best counts: whatever else the machine does makes them later, and nothing earlier.
const ATTEMPTS: usize = 3;

/// Existing work is returned at once; work that comes while a fetch waits is returned at once, from any sender; a timer
/// is on time. In every strategy of waking.
#[tokio::test(flavor = "multi_thread")]
async fn work_is_returned_at_once_and_timers_are_on_time() {
    for strategy in [Strategy::Competing, Strategy::Broadcast] {
        for on in [AggressiveOn::Faults, AggressiveOn::EveryWake] {
            let db = TestDb::new().await;
            let way = format!("{strategy:?} {on:?}");
            let here = connected(&db, calm_by(strategy, on)).await;
            let elsewhere = Elsewhere::start(&db, calm_by(strategy, on)).await;

            send(&here, "there").await;
            let since = Instant::now();
            fetch(&here).await.expect("what is there");
            assert!(since.elapsed() < AT_ONCE, "{way}: there, after {:?}", since.elapsed());

            for (who, sender) in [("here", &here), ("elsewhere", &elsewhere.provider)] {
                let turn = waiter(&here);
                waiting(&here, 1).await;
                let since = Instant::now();
                send(sender, who).await;
                assert_eq!(turn.await.expect("no panic").as_deref(), Some(who));
                assert!(since.elapsed() < AT_ONCE, "{way}: from {who}, after {:?}", since.elapsed());
            }

            let mut late = Duration::MAX;
            for number in 0..ATTEMPTS {
                let instance = format!("timer-{number}");
                let turn = waiter(&here);
                waiting(&here, 1).await;
                elsewhere.provider.enqueue_for_orchestrator(start(&instance), Some(DELAY)).await.expect("sent");
                let sent = Instant::now();
                assert_eq!(turn.await.expect("no panic"), Some(instance));
                late = late.min(sent.elapsed().saturating_sub(DELAY));
            }
            assert!(late < LATE, "{way}: a timer was {late:?} late");
        }
    }
}

/// Without long polling a fetch with nothing to give returns at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_that_does_not_wait_returns_at_once() {
    let db = TestDb::new().await;
    let provider = provider(&db, LongPollConfig::default()).await;
    for _ in 0..3 {
        let since = Instant::now();
        assert!(fetch(&provider).await.is_none());
        assert!(since.elapsed() < AT_ONCE, "after {:?}", since.elapsed());
    }
}
