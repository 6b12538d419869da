//! A circuit breaker: stops queries to a database that fails, and tries again later.
//!
//! Pure: time is an argument. While it is closed, every attempt passes. After a number of consecutive failures it
//! opens, and no attempt passes until a pause is over; then one does, and its result decides.

use std::time::Duration;

use tokio::time::Instant;

/// The state of a circuit breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// Every attempt passes.
    Closed,
    /// No attempt passes.
    Open,
    /// One attempt is running, and its result decides.
    HalfOpen,
}

/// A circuit breaker.
#[derive(Debug, Clone)]
pub struct CircuitBreaker {
    /// The number of consecutive failures that open it.
    failures_max: u32,
    /// How long it stays open.
    pause: Duration,
    failures: u32,
    /// When it opened; `None`: it is closed.
    opened: Option<Instant>,
    /// Whether an attempt is running although it is open.
    trying: bool,
}

impl CircuitBreaker {
    /// A circuit breaker that opens after `failures_max` consecutive failures, at least one, for `pause`.
    pub fn new(failures_max: u32, pause: Duration) -> CircuitBreaker {
        CircuitBreaker { failures_max: failures_max.max(1), pause, failures: 0, opened: None, trying: false }
    }

    /// Whether an attempt may be made now. If so, the caller makes it and reports its result.
    pub fn passes(&mut self, now: Instant) -> bool {
        match self.opened {
            None => true,
            Some(since) if !self.trying && now >= since + self.pause => {
                self.trying = true;
                true
            }
            Some(_) => false,
        }
    }

    /// Reports a successful attempt.
    pub fn succeeded(&mut self) {
        (self.failures, self.opened, self.trying) = (0, None, false);
    }

    /// Reports a failed attempt.
    pub fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= self.failures_max {
            (self.opened, self.trying) = (Some(now), false);
        }
    }

    /// The state.
    pub fn state(&self) -> BreakerState {
        match (self.opened, self.trying) {
            (None, _) => BreakerState::Closed,
            (Some(_), false) => BreakerState::Open,
            (Some(_), true) => BreakerState::HalfOpen,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAUSE: Duration = Duration::from_secs(10);

    /// It opens with the last of the consecutive failures, and lets one attempt pass after the pause, whose result
    /// decides.
    #[test]
    fn one_attempt_after_the_pause_decides() {
        let (mut breaker, start) = (CircuitBreaker::new(2, PAUSE), Instant::now());
        breaker.failed(start);
        assert!(breaker.passes(start));
        breaker.failed(start);
        assert_eq!((breaker.passes(start), breaker.state()), (false, BreakerState::Open));
        assert!(breaker.passes(start + PAUSE));
        assert_eq!((breaker.passes(start + PAUSE), breaker.state()), (false, BreakerState::HalfOpen));
        breaker.failed(start + PAUSE);
        assert!(!breaker.passes(start + PAUSE + PAUSE / 2));
        assert!(breaker.passes(start + PAUSE * 2));
        breaker.succeeded();
        assert_eq!((breaker.passes(start + PAUSE * 2), breaker.state()), (true, BreakerState::Closed));
    }

    proptest! {
        /// It is open exactly after the given number of consecutive failures; while it is open, attempts are at least a
        /// pause apart; a successful one closes it.
        #[test]
        fn attempts_are_a_pause_apart_while_it_is_open(
            max in 1u32..5, steps in prop::collection::vec((0u64..8, any::<bool>()), 1..200),
        ) {
            let (mut breaker, mut now) = (CircuitBreaker::new(max, PAUSE), Instant::now());
            let (mut in_a_row, mut last) = (0u32, None::<Instant>);
            for (seconds, well) in steps {
                now += Duration::from_secs(seconds);
                let open = in_a_row >= max;
                prop_assert_eq!(breaker.state() != BreakerState::Closed, open);
                let passes = breaker.passes(now);
                let rested = last.is_none_or(|last| now >= last + PAUSE);
                prop_assert_eq!(passes, !open || rested);
                if passes {
                    last = Some(now);
                    if well { breaker.succeeded(); in_a_row = 0 } else { breaker.failed(now); in_a_row += 1 }
                }
            }
        }
    }
}
