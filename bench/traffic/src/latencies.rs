//! Latencies as they travel: their number and some of their percentiles.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What is to be known of many latencies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// How many there were.
    pub count: usize,
    /// Half of them were no longer; `None` if there were none.
    pub p50_ms: Option<f64>,
    /// All but a hundredth.
    pub p99_ms: Option<f64>,
    /// All.
    pub max_ms: Option<f64>,
}

impl Latencies {
    /// Of these.
    pub fn of(mut latencies: Vec<Duration>) -> Latencies {
        latencies.sort_unstable();
        let quantile = |q: f64| {
            let index = ((latencies.len() as f64 * q).ceil() as usize).max(1) - 1;
            latencies.get(index).map(|latency| latency.as_secs_f64() * 1_000.0)
        };
        Latencies { count: latencies.len(), p50_ms: quantile(0.5), p99_ms: quantile(0.99), max_ms: quantile(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Percentiles are by the nearest rank, and nothing has none.
    #[test]
    fn percentiles_are_latencies_that_occurred() {
        let hundred = Latencies::of((1..=100).rev().map(Duration::from_millis).collect());
        assert_eq!(
            (hundred.count, hundred.p50_ms, hundred.p99_ms, hundred.max_ms),
            (100, Some(50.0), Some(99.0), Some(100.0))
        );
        assert_eq!(Latencies::of(Vec::new()).p50_ms, None);
    }
}
