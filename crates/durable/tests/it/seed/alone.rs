//! Items 3 to 5, by the clock: at once is at once. With nothing beside it, because it measures time.

use std::time::Duration;

use durable::{AggressiveOn, LongPollConfig, Strategy};
use duroxide::providers::Provider;
use pg::testing::TestDb;
use tokio::time::Instant;

use super::{calm_by, fetch, hearing, send, start, waiter, waiting};
use crate::fixture::{Elsewhere, provider};

/// What "at once" may take: the design asks for half a second.
const AT_ONCE: Duration = Duration::from_millis(500);
/// How late a timer may be: far below what polling at any pace of the design would give.
const LATE: Duration = Duration::from_millis(100);

/// What is there is given at once; what comes while a fetch waits is given at once, whoever adds it; a timer is on time. In every way of waking.
#[tokio::test(flavor = "multi_thread")]
async fn work_is_given_at_once_and_timers_are_on_time() {
    for strategy in [Strategy::Competing, Strategy::Broadcast] {
        for on in [AggressiveOn::Faults, AggressiveOn::EveryWake] {
            let db = TestDb::new().await;
            let way = format!("{strategy:?} {on:?}");
            let here = hearing(&db, calm_by(strategy, on)).await;
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

            let delay = Duration::from_millis(800);
            let turn = waiter(&here);
            waiting(&here, 1).await;
            let since = Instant::now();
            elsewhere.provider.enqueue_for_orchestrator(start("timer"), Some(delay)).await.expect("sent");
            assert_eq!(turn.await.expect("no panic").as_deref(), Some("timer"));
            let after = since.elapsed();
            assert!(after >= delay && after < delay + LATE, "{way}: a timer of {delay:?} after {after:?}");
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
