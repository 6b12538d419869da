//! The gap between a look and the sleep after it.

use super::*;

/// A ring, or a move of the clock, between an empty look and the sleep must still end the wait.
/// The first look sends it, exactly in the gap; the second finds something; no time passes on tokio's paused clock.
#[tokio::test(start_paused = true)]
async fn a_wake_in_the_gap_is_not_lost() {
    let provider = MemoryProvider::with_clock(Polling::Long, Clock::stopped());
    let ring: [&dyn Fn(); 2] =
        [&|| provider.0.turns.notify_waiters(), &|| provider.clock().advance(Duration::from_millis(1))];
    for ring in ring {
        let began = Instant::now();
        let mut looks = 0;
        let found = provider.wait(&provider.0.turns, Duration::from_secs(3_600), |_, _| {
            looks += 1;
            if looks == 1 {
                ring();
                return Look::Empty(None);
            }
            Look::Found(looks)
        });
        assert_eq!(found.await, Some(2));
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
