//! The metrics of the engine.
//!
//! They go to the `metrics` facade, so that the application's recorder exports them; some are counted here as well, so
//! that a benchmark or a test can read them without a recorder.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::wait::reason::Reason;
use crate::wait::waiting::{LATENCY_BOUNDS_US, Latency, latency_index};

/// A metric: its name, its kind and what it means. `docs/metrics.md` lists exactly these.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// The exported name.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// What it means.
    pub about: &'static str,
}

macro_rules! metrics {
    ($($(#[$doc:meta])* $id:ident = $name:literal, $kind:literal, $about:literal;)*) => {
        $(pub(crate) const $id: &str = $name;)*
        /// Every metric of this crate.
        pub const METRICS: &[Metric] = &[$(Metric { name: $name, kind: $kind, about: $about }),*];
    };
}

metrics! {
    NOTIFICATIONS_SENT = "reveille_wake_notifications_sent_total", "counter",
        "notifications sent to other processes, by channel and how (transaction, after)";
    NOTIFICATIONS_RECEIVED = "reveille_wake_notifications_received_total", "counter",
        "notifications received, by channel and from (self, other)";
    WAKES = "reveille_wake_wakes_total", "counter", "polls begun, by consumer and reason";
    POLLS = "reveille_wake_polls_total", "counter", "claim statements sent, by consumer";
    POLL_WAITERS = "reveille_wake_poll_waiters", "histogram", "waiters per claim statement, by consumer";
    EMPTY_POLLS = "reveille_wake_empty_polls_total", "counter", "polls that found nothing, by consumer";
    FAILED_POLLS = "reveille_wake_failed_polls_total", "counter", "polls that ended in an error, by consumer";
    SKIPPED_POLLS = "reveille_wake_skipped_polls_total", "counter",
        "polls that found due rows locked by other transactions, by consumer";
    SWEEPS = "reveille_wake_sweeps_total", "counter", "sweep statements over all sleeping groups, by consumer";
    ITEMS = "reveille_wake_items_total", "counter", "items claimed, by consumer";
    GIVEN_BACK = "reveille_wake_given_back_total", "counter",
        "items given back because their waiter left, by consumer";
    REFUSED = "reveille_wake_refused_total", "counter",
        "waiters rejected because the consumer had max_waiters, by consumer";
    GROUPS = "reveille_wake_groups", "gauge", "groups of waiters, including remembered empty ones, by consumer";
    WAITERS = "reveille_wake_waiters", "gauge", "waiters, by consumer";
    MODE = "reveille_wake_mode", "gauge", "1 while a consumer polls aggressively, 0 while it sleeps until a wake-up";
    LISTENER_UP = "reveille_wake_listener_up", "gauge", "1 while the listener is connected, by schema";
    LISTENER_LOSSES = "reveille_wake_listener_losses_total", "counter",
        "times the listener was disconnected or refused, by schema";
    WAKE_TO_CLAIM = "reveille_wake_wake_to_claim_seconds", "histogram",
        "from a wake-up to the items it brought, by consumer";
    WRITE_BATCHES = "reveille_wake_write_batches_total", "counter",
        "write batches, by writer and outcome (committed, failed, unknown)";
    WRITE_BATCH_SIZE = "reveille_wake_write_batch_size", "histogram", "writes per batch, by writer";
    SINGLE_WRITES = "reveille_wake_single_writes_total", "counter",
        "writes sent alone because their row was locked or their batch was refused, by writer";
}

/// A counter that can be read back.
pub(crate) struct Count {
    here: AtomicU64,
    facade: ::metrics::Counter,
}

impl Count {
    fn new(name: &'static str, consumer: &str) -> Count {
        Count { here: AtomicU64::new(0), facade: ::metrics::counter!(name, "consumer" => consumer.to_owned()) }
    }

    pub(crate) fn add(&self, n: u64) {
        self.here.fetch_add(n, Ordering::Relaxed);
        self.facade.increment(n);
    }

    fn get(&self) -> u64 {
        self.here.load(Ordering::Relaxed)
    }
}

/// The metrics of one consumer.
pub(crate) struct ConsumerMetrics {
    consumer: String,
    polls: Count,
    poll_waiters: ::metrics::Histogram,
    pub(crate) empty_polls: Count,
    pub(crate) failed_polls: Count,
    pub(crate) skipped_polls: Count,
    pub(crate) sweeps: Count,
    pub(crate) items: Count,
    pub(crate) given_back: Count,
    pub(crate) refused: Count,
    groups: ::metrics::Gauge,
    waiters: ::metrics::Gauge,
    mode: ::metrics::Gauge,
    wake_to_claim: ::metrics::Histogram,
    /// The same in memory.
    latency: [AtomicU64; LATENCY_BOUNDS_US.len() + 1],
}

/// The metrics of one writer.
pub(crate) struct WriterMetrics {
    pub(crate) batch_size: ::metrics::Histogram,
    pub(crate) committed: ::metrics::Counter,
    pub(crate) failed: ::metrics::Counter,
    pub(crate) unknown: ::metrics::Counter,
    pub(crate) single: ::metrics::Counter,
}

impl WriterMetrics {
    pub(crate) fn new(writer: &str) -> Self {
        let writer = || writer.to_owned();
        let batches =
            |outcome: &'static str| ::metrics::counter!(WRITE_BATCHES, "writer" => writer(), "outcome" => outcome);
        WriterMetrics {
            batch_size: ::metrics::histogram!(WRITE_BATCH_SIZE, "writer" => writer()),
            committed: batches("committed"),
            failed: batches("failed"),
            unknown: batches("unknown"),
            single: ::metrics::counter!(SINGLE_WRITES, "writer" => writer()),
        }
    }
}

/// The counts of one consumer since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Claim statements sent.
    pub polls: u64,
    /// Those that found nothing.
    pub empty_polls: u64,
    /// Those that ended in an error.
    pub failed_polls: u64,
    /// Those that found due rows locked by other transactions.
    pub skipped_polls: u64,
    /// Sweep statements over all sleeping groups.
    pub sweeps: u64,
    /// Items claimed.
    pub items: u64,
    /// Items given back because their waiter left.
    pub given_back: u64,
    /// Waiters rejected because there were `max_waiters`.
    pub refused: u64,
}

impl ConsumerMetrics {
    pub(crate) fn new(consumer: &str) -> Self {
        let labelled = || consumer.to_owned();
        ConsumerMetrics {
            consumer: consumer.to_owned(),
            polls: Count::new(POLLS, consumer),
            poll_waiters: ::metrics::histogram!(POLL_WAITERS, "consumer" => labelled()),
            empty_polls: Count::new(EMPTY_POLLS, consumer),
            failed_polls: Count::new(FAILED_POLLS, consumer),
            skipped_polls: Count::new(SKIPPED_POLLS, consumer),
            sweeps: Count::new(SWEEPS, consumer),
            items: Count::new(ITEMS, consumer),
            given_back: Count::new(GIVEN_BACK, consumer),
            refused: Count::new(REFUSED, consumer),
            groups: ::metrics::gauge!(GROUPS, "consumer" => labelled()),
            waiters: ::metrics::gauge!(WAITERS, "consumer" => labelled()),
            mode: ::metrics::gauge!(MODE, "consumer" => labelled()),
            wake_to_claim: ::metrics::histogram!(WAKE_TO_CLAIM, "consumer" => labelled()),
            latency: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    pub(crate) fn woken(&self, reason: Reason) {
        ::metrics::counter!(WAKES, "consumer" => self.consumer.clone(), "reason" => reason.name()).increment(1);
    }

    pub(crate) fn poll(&self, waiters: usize) {
        self.polls.add(1);
        self.poll_waiters.record(waiters as f64);
    }

    pub(crate) fn size(&self, groups: usize, waiters: usize) {
        self.groups.set(groups as f64);
        self.waiters.set(waiters as f64);
    }

    pub(crate) fn mode(&self, aggressive: bool) {
        self.mode.set(if aggressive { 1.0 } else { 0.0 });
    }

    pub(crate) fn wake_to_claim(&self, took: Duration) {
        self.wake_to_claim.record(took.as_secs_f64());
        self.latency[latency_index(took)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn latency(&self) -> Latency {
        std::array::from_fn(|index| self.latency[index].load(Ordering::Relaxed))
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            polls: self.polls.get(),
            empty_polls: self.empty_polls.get(),
            failed_polls: self.failed_polls.get(),
            skipped_polls: self.skipped_polls.get(),
            sweeps: self.sweeps.get(),
            items: self.items.get(),
            given_back: self.given_back.get(),
            refused: self.refused.get(),
        }
    }
}
