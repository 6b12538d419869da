//! The gap between a poll and the sleep after it.

use super::*;

/// A wake-up, or a move of the clock, between an empty poll and the sleep must end the wait.
/// The first poll sends it, exactly in the gap; the second finds an item; no time passes on tokio's paused clock.
#[tokio::test(start_paused = true)]
async fn a_wake_in_the_gap_is_not_lost() {
    let provider = MemoryProvider::with_clock(Polling::Long, Clock::stopped());
    let wake: [&dyn Fn(); 2] =
        [&|| provider.0.turns.notify_waiters(), &|| provider.clock().advance(Duration::from_millis(1))];
    for wake in wake {
        let began = Instant::now();
        let mut polls = 0;
        let found = provider.wait(&provider.0.turns, Duration::from_secs(3_600), |_, _| {
            polls += 1;
            if polls == 1 {
                wake();
                return PollResult::Empty(None);
            }
            PollResult::Claimed(polls)
        });
        assert_eq!(found.await, Some(2));
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
