//! The one retry loop.
//!
//! A transient failure is worth another attempt, but a thousand clients that retry at the same time are worse than the
//! failure. [`retry`] repeats only [transient](crate::Error::is_transient) failures, with exponential backoff and
//! jitter, up to a number of attempts and a time limit. [`Backoff`] is the sequence of pauses alone, for loops that do
//! more than sleep between attempts (the listener's).

use std::time::Duration;

use tokio::time::Instant;

use crate::{Result, shortage};

/// Limits of a retry loop: attempts, pauses and total time.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Total attempts, including the first; at least one is made. Default 12: more than a default pool has connections,
    /// so a call succeeds even if a restart killed all of them.
    pub attempts: u32,
    /// Upper bound of the first pause; it doubles with each failure. Default 10 ms.
    pub first: Duration,
    /// Upper bound of any pause. Default 2 s.
    pub longest: Duration,
    /// No attempt starts later than this after the first one. Default 30 s: a server restarts in less.
    pub give_up_after: Duration,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            attempts: 12,
            first: Duration::from_millis(10),
            longest: Duration::from_secs(2),
            give_up_after: Duration::from_secs(30),
        }
    }
}

impl Policy {
    /// The pauses of this policy, without its limits.
    pub fn backoff(&self) -> Backoff {
        Backoff::new(self.first, self.longest)
    }
}

/// Runs `op` (given the attempt's number, from 1) until it succeeds, fails permanently, or a limit of the policy is
/// reached. `what` names the operation in the log.
///
/// A resource shortage is retried for its [own time limit](crate::shortage::Shortage::patience); if the shortage has
/// lasted longer, only one attempt is made.
///
/// An ambiguous failure is retried too: `op` must detect whether the previous attempt took effect, or be idempotent.
///
/// # Errors
/// The last error of `op`.
///
/// # Cancel safety
/// As `op`'s: dropping the future drops the attempt under way.
pub async fn retry<T, F, Fut>(policy: &Policy, what: &str, mut op: F) -> Result<T>
where
    F: FnMut(u32) -> Fut,
    Fut: Future<Output = Result<T>>,
{
    let started = Instant::now();
    let mut backoff = policy.backoff();
    let mut attempt = 1;
    loop {
        let error = match op(attempt).await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let pause = backoff.pause();
        let limit = error.shortage().map_or(policy.give_up_after, |short| short.patience().min(policy.give_up_after));
        let in_time = started.elapsed().saturating_add(pause) <= limit && !shortage::is_lasting();
        if !error.is_transient() || attempt >= policy.attempts || !in_time {
            return Err(error);
        }
        tracing::debug!(what, attempt, ?pause, %error, "retrying");
        tokio::time::sleep(pause).await;
        attempt += 1;
    }
}

/// Random pauses below a ceiling that doubles from `first` to `longest` ("full jitter"), so that clients that failed
/// together do not retry together. The sequence is infinite.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    ceiling: Duration,
    longest: Duration,
}

impl Backoff {
    /// Pauses of up to `first`, then up to twice that, and so on up to `longest`.
    pub fn new(first: Duration, longest: Duration) -> Backoff {
        let first = first.min(longest);
        Backoff { first, ceiling: first, longest }
    }

    /// The next pause.
    pub fn pause(&mut self) -> Duration {
        let ceiling = self.ceiling;
        self.ceiling = ceiling.saturating_mul(2).min(self.longest);
        ceiling.mul_f64(fastrand::f64())
    }

    /// Starts over from `first`; call it after a success.
    pub fn reset(&mut self) {
        self.ceiling = self.first;
    }
}

impl Iterator for Backoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(self.pause())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use proptest::prelude::*;

    proptest! {
        /// For any bounds: no pause exceeds its ceiling, ceilings double up to `longest`, and a reset starts over.
        #[test]
        fn pauses_stay_below_a_doubling_ceiling(first in 0u64..5_000, longest in 0u64..100_000, steps in 1usize..80) {
            let (first, longest) = (Duration::from_millis(first), Duration::from_millis(longest));
            let mut backoff = Backoff::new(first, longest);
            let mut ceiling = first.min(longest);
            for _ in 0..steps {
                prop_assert!(backoff.pause() <= ceiling);
                ceiling = (ceiling * 2).min(longest);
                prop_assert_eq!(backoff.ceiling, ceiling);
            }
            backoff.reset();
            prop_assert!(backoff.pause() <= first.min(longest));
        }
    }

    /// Extreme bounds must not overflow.
    #[test]
    fn the_longest_possible_pause_does_not_overflow() {
        let mut backoff = Backoff::new(Duration::MAX, Duration::MAX);
        for _ in 0..100 {
            backoff.pause();
        }
    }

    /// Pauses must differ, or clients that failed together retry together. A hundred equal ones would be no accident.
    #[test]
    fn pauses_are_random() {
        let second = Duration::from_secs(1);
        let pauses: std::collections::HashSet<_> = Backoff::new(second, second).take(100).collect();
        assert!(pauses.len() > 50, "{pauses:?}");
    }

    fn transient() -> Error {
        Error::Exhausted
    }

    /// A transient failure is retried and attempts are numbered; the success is returned. Runs on tokio's paused clock.
    #[tokio::test(start_paused = true)]
    async fn transient_failures_are_retried() {
        let policy = Policy::default();
        let result = retry(&policy, "test", async |attempt| match attempt {
            3 => Ok(attempt),
            _ => Err(transient()),
        });
        assert_eq!(result.await.unwrap(), 3);
    }

    /// A permanent failure is not retried.
    #[tokio::test(start_paused = true)]
    async fn a_permanent_failure_is_final() {
        let mut calls = 0;
        let result: Result<()> = retry(&Policy::default(), "test", |_| {
            calls += 1;
            async { Err(Error::Closed) }
        })
        .await;
        assert!(matches!(result, Err(Error::Closed)));
        assert_eq!(calls, 1);
    }

    /// Both limits end the loop with the last error: the number of attempts, and the time, which one attempt may use
    /// up.
    #[tokio::test(start_paused = true)]
    async fn attempts_and_time_are_bounded() {
        let mut calls = 0;
        let policy = Policy { attempts: 4, ..Policy::default() };
        let result: Result<()> = retry(&policy, "test", |_| {
            calls += 1;
            async { Err(transient()) }
        })
        .await;
        assert!(matches!(result, Err(Error::Exhausted)));
        assert_eq!(calls, 4);

        let mut calls = 0;
        let policy = Policy { attempts: 1000, ..Policy::default() };
        let started = Instant::now();
        let result: Result<()> = retry(&policy, "test", |_| {
            calls += 1;
            async {
                tokio::time::sleep(Duration::from_secs(20)).await;
                Err(transient())
            }
        })
        .await;
        assert!(matches!(result, Err(Error::Exhausted)));
        assert_eq!(calls, 2, "the second starts within 30 s, a third would not");
        assert!(started.elapsed() < Duration::from_secs(45));
    }
}
