//! Messages per second, without history.
//!
//! The mean over the last seconds, in which older messages count less: it is updated when something happens, and falls
//! by itself when it is read. So it needs no timer, and two numbers of memory.

use std::time::{Duration, Instant};

/// The time in which the weight of a message falls to a third.
const WINDOW: Duration = Duration::from_secs(10);
/// Slower rates are shown as none.
const LEAST: f64 = 0.05;

/// A rate.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rate {
    per_second: f64,
    at: Option<Instant>,
}

impl Rate {
    /// Counts messages at a time.
    pub(crate) fn add(&mut self, messages: u64, now: Instant) {
        self.per_second = self.weighted(now) + messages as f64 / WINDOW.as_secs_f64();
        self.at = Some(now);
    }

    /// The rate at a time.
    pub(crate) fn at(&self, now: Instant) -> f64 {
        let rate = self.weighted(now);
        if rate < LEAST { 0.0 } else { rate }
    }

    fn weighted(&self, now: Instant) -> f64 {
        let elapsed = self.at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.per_second * (-elapsed.as_secs_f64() / WINDOW.as_secs_f64()).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A steady stream has its rate, after a minute of ten messages every tenth of a second; when it ends, the rate
    /// falls to none.
    #[test]
    fn a_steady_stream_has_its_rate() {
        let start = Instant::now();
        let (mut rate, mut now) = (Rate::default(), start);
        assert!(rate.at(now) == 0.0);
        for _ in 0..600 {
            now += Duration::from_millis(100);
            rate.add(10, now);
        }
        assert!((rate.at(now) - 100.0).abs() < 2.0, "{rate:?}");
        assert!(rate.at(now + WINDOW) < 40.0);
        assert!(rate.at(now + WINDOW * 10) == 0.0);
    }
}
