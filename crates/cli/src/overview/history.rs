//! Rates of the last half hour, from counters in memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reveille_queue::Queues;
use reveille_wake::{LATENCY_BOUNDS_US, Latency, Wake};
use tokio::time::{Instant, interval};

/// The time between two samples, and how many of them are kept: half an hour.
pub(crate) const EVERY: Duration = Duration::from_secs(10);
pub(crate) const KEPT: usize = 180;

/// Counters at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Sample {
    pub(crate) pushed: u64,
    pub(crate) acked: u64,
    pub(crate) failed: u64,
    /// Steps of tasks that were claimed.
    pub(crate) steps: u64,
    pub(crate) statements: u64,
    pub(crate) latency: Latency,
}

/// The samples of the last half hour, oldest first.
#[derive(Default)]
pub(crate) struct History(Mutex<VecDeque<(Instant, Sample)>>);

/// A quantity over time: one value per interval, `None` where it is unknown.
pub(crate) type Series = Vec<Option<f64>>;

impl History {
    /// Samples the counters from now on, until all other references are dropped. It sends no statement.
    pub(crate) fn start(wake: &Wake, queues: &Queues) -> Arc<History> {
        let history = Arc::new(History::default());
        let (weak, wake, queues) = (Arc::downgrade(&history), wake.clone(), queues.clone());
        tokio::spawn(async move {
            let mut ticks = interval(EVERY);
            loop {
                ticks.tick().await;
                let Some(history) = weak.upgrade() else { return };
                history.add(Instant::now(), Sample::take(&wake, &queues));
            }
        });
        history
    }

    fn add(&self, at: Instant, sample: Sample) {
        let mut samples = self.0.lock();
        if samples.len() > KEPT {
            samples.pop_front();
        }
        samples.push_back((at, sample));
    }

    /// The change of a counter per second, between each two samples and from the last one to `now`.
    pub(crate) fn rate(&self, of: impl Fn(&Sample) -> u64) -> Series {
        self.pairs(|before, after, seconds| Some(of(after).saturating_sub(of(before)) as f64 / seconds))
    }

    /// The latency that this share of the wake-ups did not exceed, in milliseconds; `None` where there were none.
    pub(crate) fn latency(&self, share: f64) -> Series {
        self.pairs(|before, after, _| {
            let counts: Vec<u64> =
                after.latency.iter().zip(&before.latency).map(|(a, b)| a.saturating_sub(*b)).collect();
            quantile(&counts, share)
        })
    }

    fn pairs(&self, value: impl Fn(&Sample, &Sample, f64) -> Option<f64>) -> Series {
        let samples = self.0.lock();
        let pairs = samples.iter().zip(samples.iter().skip(1));
        let values = pairs.map(|((began, before), (ended, after))| {
            value(before, after, ended.saturating_duration_since(*began).as_secs_f64().max(0.001))
        });
        let values: Series = values.collect();
        std::iter::repeat_n(None, KEPT.saturating_sub(values.len())).chain(values).collect()
    }
}

impl Sample {
    fn take(wake: &Wake, queues: &Queues) -> Sample {
        let counts = queues.message_counts(0);
        let mut sample = Sample { statements: wake.statements(), ..Sample::default() };
        sample.pushed = counts.queues.iter().map(|one| one.pushed).sum();
        for one in &counts.groups {
            sample.acked += one.counts.acked;
            sample.failed += one.counts.failed + one.counts.dead_lettered;
        }
        for consumer in wake.health().consumers {
            if &*consumer.name == "steps" {
                sample.steps += consumer.counts.items;
            }
            for (sum, count) in sample.latency.iter_mut().zip(consumer.latency) {
                *sum += count;
            }
        }
        sample
    }
}

/// The bound below which this share of the counts is, in milliseconds.
pub(crate) fn quantile(counts: &[u64], share: f64) -> Option<f64> {
    let total: u64 = counts.iter().sum();
    let wanted = (total as f64 * share).ceil().max(1.0) as u64;
    let mut sum = 0;
    let at = counts.iter().position(|count| {
        sum += count;
        sum >= wanted
    })?;
    let bound = LATENCY_BOUNDS_US.get(at).or(LATENCY_BOUNDS_US.last())?;
    Some(*bound as f64 / 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rates are per second between samples, the newest last; what is older than the first sample is unknown, and the
    /// number of samples is bounded.
    #[tokio::test(start_paused = true)]
    async fn rates_are_changes_per_second() {
        let (history, began) = (History::default(), Instant::now());
        for n in 0..3 {
            let sample = Sample { pushed: n * n * 100, ..Sample::default() };
            history.add(began + EVERY * n as u32, sample);
        }
        let rates = history.rate(|sample| sample.pushed);
        assert_eq!((rates.len(), &rates[KEPT - 3..]), (KEPT, &[None, Some(10.0), Some(30.0)][..]));
        for n in 0..1_000 {
            history.add(began + EVERY * n, Sample::default());
        }
        assert_eq!(history.rate(|sample| sample.pushed).len(), KEPT);
    }

    /// A quantile is the bound of its count; without counts there is none.
    #[test]
    fn quantiles_are_bounds() {
        let mut counts = [0; LATENCY_BOUNDS_US.len() + 1];
        assert_eq!(quantile(&counts, 0.5), None);
        (counts[2], counts[6]) = (99, 1);
        assert_eq!(
            (quantile(&counts, 0.5), quantile(&counts, 0.99), quantile(&counts, 1.0)),
            (Some(1.0), Some(1.0), Some(10.0))
        );
    }
}
