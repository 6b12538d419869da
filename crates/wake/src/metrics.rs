//! What the engine counts, under names that never change.
//!
//! Counts go to the `metrics` facade, so that the application's recorder exports them, and are kept here as well, so that a
//! benchmark or a test can read them without installing one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::reason::Reason;

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
    RINGS_SENT = "reveille_wake_rings_sent_total", "counter", "rings sent to other processes, by channel and how (transaction, after)";
    RINGS_HEARD = "reveille_wake_rings_heard_total", "counter", "notifications heard, by channel and from (self, other)";
    WAKES = "reveille_wake_wakes_total", "counter", "looks begun, by consumer and reason";
    LOOKS = "reveille_wake_looks_total", "counter", "claim statements sent, by consumer";
    LOOK_SEATS = "reveille_wake_look_seats", "histogram", "waiters per claim statement, by consumer";
    EMPTY_LOOKS = "reveille_wake_empty_looks_total", "counter", "looks that found nothing, by consumer";
    FAILED_LOOKS = "reveille_wake_failed_looks_total", "counter", "looks that ended in an error, by consumer";
    SKIPPED_LOOKS = "reveille_wake_skipped_looks_total", "counter", "looks that found due rows locked by others, by consumer";
    SWEEPS = "reveille_wake_sweeps_total", "counter", "fallback and poll statements over all groups, by consumer";
    ITEMS = "reveille_wake_items_total", "counter", "items claimed, by consumer";
    AHEAD = "reveille_wake_taken_ahead_total", "counter", "items claimed for waiters that were about to come, by consumer";
    GIVEN_BACK = "reveille_wake_given_back_total", "counter", "items given back because their waiter went away or never came, by consumer";
    REFUSED = "reveille_wake_refused_total", "counter", "intentions refused because the registry was full, by consumer";
    GROUPS = "reveille_wake_groups", "gauge", "groups remembered, by consumer";
    INTENTIONS = "reveille_wake_intentions", "gauge", "waiting intentions, by consumer";
    MODE = "reveille_wake_mode", "gauge", "1 while a consumer polls, 0 while it sleeps until rung";
    LISTENER_UP = "reveille_wake_listener_up", "gauge", "1 while notifications are heard, by schema";
    LISTENER_LOSSES = "reveille_wake_listener_losses_total", "counter", "times the listener's connection was lost or refused, by schema";
    RING_TO_CLAIM = "reveille_wake_ring_to_claim_seconds", "histogram", "from a ring to the items it brought, by consumer";
    FLIGHTS = "reveille_wake_flights_total", "counter", "flights, by flight and outcome (landed, failed, unknown)";
    FLIGHT_MEMBERS = "reveille_wake_flight_members", "histogram", "members per flight, by flight";
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
    looks: Count,
    look_seats: ::metrics::Histogram,
    pub(crate) empty_looks: Count,
    pub(crate) failed_looks: Count,
    pub(crate) skipped_looks: Count,
    pub(crate) sweeps: Count,
    pub(crate) items: Count,
    pub(crate) ahead: Count,
    pub(crate) given_back: Count,
    pub(crate) refused: Count,
    groups: ::metrics::Gauge,
    intentions: ::metrics::Gauge,
    mode: ::metrics::Gauge,
    ring_to_claim: ::metrics::Histogram,
}

/// What one kind of flight counts.
pub(crate) struct FlightMetrics {
    pub(crate) members: ::metrics::Histogram,
    pub(crate) landed: ::metrics::Counter,
    pub(crate) failed: ::metrics::Counter,
    pub(crate) unknown: ::metrics::Counter,
    pub(crate) lone: ::metrics::Counter,
}

impl FlightMetrics {
    pub(crate) fn new(flight: &str) -> Self {
        let ended =
            |outcome: &'static str| ::metrics::counter!(FLIGHTS, "flight" => flight.to_owned(), "outcome" => outcome);
        FlightMetrics {
            members: ::metrics::histogram!(FLIGHT_MEMBERS, "flight" => flight.to_owned()),
            landed: ended("landed"),
            failed: ended("failed"),
            unknown: ended("unknown"),
            lone: ::metrics::counter!(LONE_MEMBERS, "flight" => flight.to_owned()),
        }
    }
}

/// The counts of one consumer since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Claim statements sent.
    pub looks: u64,
    /// Those that found nothing.
    pub empty_looks: u64,
    /// Those that ended in an error.
    pub failed_looks: u64,
    /// Those that found due rows locked by others.
    pub skipped_looks: u64,
    /// Fallback and poll statements over all groups.
    pub sweeps: u64,
    /// Items claimed.
    pub items: u64,
    /// Of these, those for waiters that were about to come.
    pub ahead: u64,
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
            looks: Count::new(LOOKS, consumer),
            look_seats: ::metrics::histogram!(LOOK_SEATS, "consumer" => labelled()),
            empty_looks: Count::new(EMPTY_LOOKS, consumer),
            failed_looks: Count::new(FAILED_LOOKS, consumer),
            skipped_looks: Count::new(SKIPPED_LOOKS, consumer),
            sweeps: Count::new(SWEEPS, consumer),
            items: Count::new(ITEMS, consumer),
            ahead: Count::new(AHEAD, consumer),
            given_back: Count::new(GIVEN_BACK, consumer),
            refused: Count::new(REFUSED, consumer),
            groups: ::metrics::gauge!(GROUPS, "consumer" => labelled()),
            intentions: ::metrics::gauge!(INTENTIONS, "consumer" => labelled()),
            mode: ::metrics::gauge!(MODE, "consumer" => labelled()),
            ring_to_claim: ::metrics::histogram!(RING_TO_CLAIM, "consumer" => labelled()),
        }
    }

    pub(crate) fn woken(&self, reason: Reason) {
        ::metrics::counter!(WAKES, "consumer" => self.consumer.clone(), "reason" => reason.name()).increment(1);
    }

    pub(crate) fn look(&self, seats: usize) {
        self.looks.add(1);
        self.look_seats.record(seats as f64);
    }

    pub(crate) fn size(&self, groups: usize, intentions: usize) {
        self.groups.set(groups as f64);
        self.intentions.set(intentions as f64);
    }

    pub(crate) fn mode(&self, aggressive: bool) {
        self.mode.set(if aggressive { 1.0 } else { 0.0 });
    }

    pub(crate) fn ring_to_claim(&self, took: Duration) {
        self.ring_to_claim.record(took.as_secs_f64());
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            looks: self.looks.get(),
            empty_looks: self.empty_looks.get(),
            failed_looks: self.failed_looks.get(),
            skipped_looks: self.skipped_looks.get(),
            sweeps: self.sweeps.get(),
            items: self.items.get(),
            ahead: self.ahead.get(),
            given_back: self.given_back.get(),
            refused: self.refused.get(),
        }
    }
}
