//! A summary of latencies, which is exchanged as JSON.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The number of latencies and three of their percentiles.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// The number of latencies.
    pub count: usize,
    /// The median; `None` if there were none.
    pub p50_ms: Option<f64>,
    /// The 99th percentile.
    pub p99_ms: Option<f64>,
    /// The maximum.
    pub max_ms: Option<f64>,
}

impl Latencies {
    /// Summarises these latencies.
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

    /// Percentiles are by the nearest rank. Without latencies there are none.
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
