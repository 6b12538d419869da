//! Samples of one latency, with two percentiles.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Samples of one kind in milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// The median; `None` without samples.
    pub p50_ms: Option<f64>,
    /// The 99th percentile; `None` without samples.
    pub p99_ms: Option<f64>,
    /// All samples in the order in which they were taken: percentiles over several rounds need them.
    pub samples_ms: Vec<f64>,
}

impl FromIterator<f64> for Latencies {
    fn from_iter<T: IntoIterator<Item = f64>>(samples_ms: T) -> Latencies {
        // Whole microseconds: more digits are noise, and make long lines.
        let samples_ms: Vec<f64> = samples_ms.into_iter().map(|ms| (ms * 1_000.0).round() / 1_000.0).collect();
        Latencies { p50_ms: quantile(&samples_ms, 0.5), p99_ms: quantile(&samples_ms, 0.99), samples_ms }
    }
}

impl FromIterator<Duration> for Latencies {
    fn from_iter<T: IntoIterator<Item = Duration>>(samples: T) -> Latencies {
        samples.into_iter().map(|sample| sample.as_secs_f64() * 1_000.0).collect()
    }
}

/// By the nearest rank: a value that occurred.
fn quantile(samples: &[f64], q: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() as f64 * q).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Percentiles are values that occurred. Without samples they are null in JSON, and reading that does not fail.
    #[test]
    fn quantiles_are_values_that_occurred() {
        let hundred: Latencies = (1..=100).rev().map(Duration::from_millis).collect();
        assert_eq!((hundred.p50_ms, hundred.p99_ms), (Some(50.0), Some(99.0)));
        assert_eq!(Latencies::from_iter([7.0]).p99_ms, Some(7.0));
        let none = serde_json::to_string(&Latencies::from_iter(Vec::<f64>::new())).unwrap();
        assert_eq!(none, r#"{"p50_ms":null,"p99_ms":null,"samples_ms":[]}"#);
        assert_eq!(serde_json::from_str::<Latencies>(&none).unwrap(), Latencies::default());
    }
}
