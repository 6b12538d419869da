//! What the engine counts, under names that never change.
//!
//! Counts go to the `metrics` facade, so that the application's recorder exports them, and are kept here as well, so that a
//! benchmark or a test can read them without installing one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::wait::reason::Reason;

/// A metric: its name, its kind and what it means. `docs/metrics.md` lists exactly these.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// The exported name.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// What it tells.
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
    NOTIFICATIONS_SENT = "reveille_wake_notifications_sent_total", "counter", "rings sent to other processes, by channel and how (transaction, after)";
    NOTIFICATIONS_RECEIVED = "reveille_wake_notifications_received_total", "counter", "notifications heard, by channel and from (self, other)";
    WAKES = "reveille_wake_wakes_total", "counter", "looks begun, by consumer and reason";
    POLLS = "reveille_wake_polls_total", "counter", "claim statements sent, by consumer";
    POLL_WAITERS = "reveille_wake_poll_waiters", "histogram", "waiters per claim statement, by consumer";
    EMPTY_POLLS = "reveille_wake_empty_polls_total", "counter", "looks that found nothing, by consumer";
    FAILED_POLLS = "reveille_wake_failed_polls_total", "counter", "looks that ended in an error, by consumer";
    SKIPPED_POLLS = "reveille_wake_skipped_polls_total", "counter", "looks that found due rows locked by others, by consumer";
    SWEEPS = "reveille_wake_sweeps_total", "counter", "fallback and poll statements over all groups, by consumer";
    ITEMS = "reveille_wake_items_total", "counter", "items claimed, by consumer";
    AHEAD = "reveille_wake_prefetched_total", "counter", "items claimed for waiters that were about to come, by consumer";
    GIVEN_BACK = "reveille_wake_given_back_total", "counter", "items given back because their waiter went away or never came, by consumer";
    REFUSED = "reveille_wake_refused_total", "counter", "intentions refused because the registry was full, by consumer";
    GROUPS = "reveille_wake_groups", "gauge", "groups remembered, by consumer";
    WAITERS = "reveille_wake_waiters", "gauge", "waiting intentions, by consumer";
    MODE = "reveille_wake_mode", "gauge", "1 while a consumer polls, 0 while it sleeps until rung";
    LISTENER_UP = "reveille_wake_listener_up", "gauge", "1 while notifications are heard, by schema";
    LISTENER_LOSSES = "reveille_wake_listener_losses_total", "counter", "times the listener's connection was lost or refused, by schema";
    WAKE_TO_CLAIM = "reveille_wake_wake_to_claim_seconds", "histogram", "from a ring to the items it brought, by consumer";
    WRITE_BATCHES = "reveille_wake_write_batches_total", "counter", "flights, by flight and outcome (landed, failed, unknown)";
    WRITE_BATCH_SIZE = "reveille_wake_write_batch_size", "histogram", "members per flight, by flight";
    LONE_MEMBERS = "reveille_wake_lone_members_total", "counter", "members sent alone because their row was locked or the flight failed, by flight";
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

/// What one consumer counts.
pub(crate) struct ConsumerMetrics {
    consumer: String,
    polls: Count,
    look_seats: ::metrics::Histogram,
    pub(crate) empty_polls: Count,
    pub(crate) failed_polls: Count,
    pub(crate) skipped_polls: Count,
    pub(crate) sweeps: Count,
    pub(crate) items: Count,
    pub(crate) prefetch: Count,
    pub(crate) given_back: Count,
    pub(crate) refused: Count,
    groups: ::metrics::Gauge,
    waiters: ::metrics::Gauge,
    mode: ::metrics::Gauge,
    ring_to_claim: ::metrics::Histogram,
}

/// What one kind of flight counts.
pub(crate) struct WriterMetrics {
    pub(crate) writes: ::metrics::Histogram,
    pub(crate) result: ::metrics::Counter,
    pub(crate) failed: ::metrics::Counter,
    pub(crate) unknown: ::metrics::Counter,
    pub(crate) lone: ::metrics::Counter,
}

impl WriterMetrics {
    pub(crate) fn new(batched_write: &str) -> Self {
        let ended = |outcome: &'static str| ::metrics::counter!(WRITE_BATCHES, "flight" => batched_write.to_owned(), "outcome" => outcome);
        WriterMetrics {
            writes: ::metrics::histogram!(WRITE_BATCH_SIZE, "flight" => batched_write.to_owned()),
            result: ended("landed"),
            failed: ended("failed"),
            unknown: ended("unknown"),
            lone: ::metrics::counter!(LONE_MEMBERS, "flight" => batched_write.to_owned()),
        }
    }
}

/// The counts of one consumer since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Claim statements sent.
    pub polls: u64,
    /// Those that found nothing.
    pub empty_polls: u64,
    /// Those that ended in an error.
    pub failed_polls: u64,
    /// Those that found due rows locked by others.
    pub skipped_polls: u64,
    /// Fallback and poll statements over all groups.
    pub sweeps: u64,
    /// Items claimed.
    pub items: u64,
    /// Of these, those for waiters that were about to come.
    pub prefetch: u64,
    /// Items given back because their waiter went away or never came.
    pub given_back: u64,
    /// Intentions refused.
    pub refused: u64,
}

impl ConsumerMetrics {
    pub(crate) fn new(consumer: &str) -> Self {
        let labelled = || consumer.to_owned();
        ConsumerMetrics {
            consumer: consumer.to_owned(),
            polls: Count::new(POLLS, consumer),
            look_seats: ::metrics::histogram!(POLL_WAITERS, "consumer" => labelled()),
            empty_polls: Count::new(EMPTY_POLLS, consumer),
            failed_polls: Count::new(FAILED_POLLS, consumer),
            skipped_polls: Count::new(SKIPPED_POLLS, consumer),
            sweeps: Count::new(SWEEPS, consumer),
            items: Count::new(ITEMS, consumer),
            prefetch: Count::new(AHEAD, consumer),
            given_back: Count::new(GIVEN_BACK, consumer),
            refused: Count::new(REFUSED, consumer),
            groups: ::metrics::gauge!(GROUPS, "consumer" => labelled()),
            waiters: ::metrics::gauge!(WAITERS, "consumer" => labelled()),
            mode: ::metrics::gauge!(MODE, "consumer" => labelled()),
            ring_to_claim: ::metrics::histogram!(WAKE_TO_CLAIM, "consumer" => labelled()),
        }
    }

    pub(crate) fn woken(&self, reason: Reason) {
        ::metrics::counter!(WAKES, "consumer" => self.consumer.clone(), "reason" => reason.name()).increment(1);
    }

    pub(crate) fn poll(&self, waiters: usize) {
        self.polls.add(1);
        self.look_seats.record(waiters as f64);
    }

    pub(crate) fn size(&self, groups: usize, waiters: usize) {
        self.groups.set(groups as f64);
        self.waiters.set(waiters as f64);
    }

    pub(crate) fn mode(&self, aggressive: bool) {
        self.mode.set(if aggressive { 1.0 } else { 0.0 });
    }

    pub(crate) fn ring_to_claim(&self, took: Duration) {
        self.ring_to_claim.record(took.as_secs_f64());
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            polls: self.polls.get(),
            empty_polls: self.empty_polls.get(),
            failed_polls: self.failed_polls.get(),
            skipped_polls: self.skipped_polls.get(),
            sweeps: self.sweeps.get(),
            items: self.items.get(),
            prefetch: self.prefetch.get(),
            given_back: self.given_back.get(),
            refused: self.refused.get(),
        }
    }
}
