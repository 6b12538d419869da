//! What is counted about events and claims, under names that never change.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use reveille_wake::Metric;
use tokio::time::Instant;

use super::event::EventSource;
use crate::claim::unanswered::locked;

macro_rules! metrics {
    ($($id:ident = $name:literal, $kind:literal, $about:literal;)*) => {
        $(const $id: &str = $name;)*
        /// Every metric of this crate. `docs/metrics.md` lists exactly these.
        pub const METRICS: &[Metric] = &[$(Metric { name: $name, kind: $kind, about: $about }),*];
    };
}

metrics! {
    RECEIVED = "reveille_flow_notifications_received_total", "counter", "events of ready tasks that came to coordinators, by source (notification, in_process, fallback_poller)";
    PROCESSED = "reveille_flow_notifications_processed_total", "counter", "events that were dealt with";
    FAILED = "reveille_flow_notifications_failed_total", "counter", "events that were not: unreadable, no room in the channel, or the handler failed";
    DEDUPLICATED = "reveille_flow_notifications_deduplicated_total", "counter", "events that went into others of the same task";
    LAG = "reveille_flow_notification_lag_seconds", "histogram", "from a commit of this process to its event: here, and back through PostgreSQL";
    ACTIVE = "reveille_flow_coordinators_active", "gauge", "coordinators of namespaces that run";
    SPAWNED = "reveille_flow_coordinators_spawned_total", "counter", "coordinators that were started";
    WORKERS = "reveille_flow_coordinator_workers", "gauge", "handlers that the workers of coordinators may have at work at a time";
    VIA_EVENT = "reveille_flow_tasks_claimed_via_event_total", "counter", "steps claimed by who waits for them";
    VIA_POLLING = "reveille_flow_tasks_claimed_via_polling_total", "counter", "steps claimed by who asks now and then, or once";
    CONFLICTS = "reveille_flow_claim_conflicts_total", "counter", "claims that found only steps that others were claiming";
    DEPTH = "reveille_flow_channel_queue_depth", "gauge", "events that wait for their coordinator";
    THROUGHPUT = "reveille_flow_channel_throughput", "histogram", "events a coordinator dealt with in a second in which there were any";
    FOUND = "reveille_flow_fallback_found_total", "counter", "tasks that were ready for long and unclaimed when the fallback poller asked: there should be none";
    ASKED = "reveille_flow_fallback_polls_total", "counter", "times the fallback poller asked, by outcome (done, failed)";
    SETTLED = "reveille_flow_attempts_ended_total", "counter", "attempts that workers ended through this process, by state of the step afterwards";
    ENDED = "reveille_flow_tasks_ended_total", "counter", "tasks that ended with one of these attempts, by state";
    ANNOUNCED = "reveille_flow_announcements_sent_total", "counter", "notifications sent to listeners outside";
    UNTOLD = "reveille_flow_announcements_dropped_total", "counter", "changes of tasks that were not told because too many waited to be, or the database failed";
}

/// An attempt was ended by its worker: where its step is now, and where its task has ended with it.
pub(crate) fn count_reported(step: &'static str, task: Option<&'static str>) {
    metrics::counter!(SETTLED, "state" => step).increment(1);
    if let Some(task) = task {
        metrics::counter!(ENDED, "state" => task).increment(1);
    }
}

/// What was counted since the start, under the names of the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct EventDrivenMetrics {
    /// Events of ready tasks that came to coordinators.
    pub notifications_received: u64,
    /// Those that were dealt with.
    pub notifications_processed: u64,
    /// Those that were not: unreadable, no room in the channel, or the handler failed.
    pub notifications_failed: u64,
    /// Those that went into others of the same task.
    pub notifications_deduplicated: u64,
    /// From a commit of this process to its event, the last time.
    pub notification_lag: Option<Duration>,
    /// Coordinators that run.
    pub coordinators_active: u64,
    /// Coordinators that were started.
    pub coordinators_spawned: u64,
    /// Handlers that their workers may have at work at a time.
    pub coordinator_worker_count: u64,
    /// Steps claimed by who waits for them.
    pub tasks_claimed_via_event: u64,
    /// Steps claimed by who asks now and then, or once.
    pub tasks_claimed_via_polling: u64,
    /// Claims that found only steps that others were claiming.
    pub claim_conflicts: u64,
    /// Events that wait for their coordinator.
    pub channel_queue_depth: u64,
    /// Events a coordinator dealt with in the last second that it counted.
    pub channel_throughput: u64,
    /// Tasks that the fallback poller found.
    pub fallback_found: u64,
    /// Times the fallback poller asked.
    pub fallback_polls: u64,
    /// Notifications sent to listeners outside.
    pub announcements_sent: u64,
    /// Changes of tasks that were not told.
    pub announcements_dropped: u64,
}

/// A counter that can be read back.
pub(crate) struct Count {
    here: AtomicU64,
    facade: metrics::Counter,
}

impl Count {
    fn new(name: &'static str) -> Count {
        Count { here: AtomicU64::new(0), facade: metrics::counter!(name) }
    }

    pub(crate) fn add(&self, n: u64) {
        self.here.fetch_add(n, Relaxed);
        self.facade.increment(n);
    }

    fn get(&self) -> u64 {
        self.here.load(Relaxed)
    }
}

/// A number that goes up and down, and can be read back.
pub(crate) struct Level {
    here: AtomicI64,
    facade: metrics::Gauge,
}

impl Level {
    fn new(name: &'static str) -> Level {
        Level { here: AtomicI64::new(0), facade: metrics::gauge!(name) }
    }

    pub(crate) fn add(&self, n: i64) {
        self.here.fetch_add(n, Relaxed);
        self.facade.increment(n as f64);
    }

    fn get(&self) -> u64 {
        self.here.load(Relaxed).max(0) as u64
    }
}

/// What one flow counts.
pub(crate) struct Meter {
    /// By source; all of them together.
    received: AtomicU64,
    received_by: [metrics::Counter; 3],
    pub(crate) processed: Count,
    pub(crate) failed: Count,
    pub(crate) deduplicated: Count,
    lag: metrics::Histogram,
    /// The last one, and when it was.
    last_lag: Mutex<Option<(Duration, Instant)>>,
    pub(crate) active: Level,
    pub(crate) spawned: Count,
    pub(crate) workers: Level,
    pub(crate) via_event: Count,
    pub(crate) via_polling: Count,
    pub(crate) conflicts: Count,
    pub(crate) depth: Level,
    throughput: metrics::Histogram,
    last_throughput: AtomicU64,
    pub(crate) found: Count,
    polls: AtomicU64,
    pub(crate) announced: Count,
    pub(crate) untold: Count,
}

impl Meter {
    pub(crate) fn new() -> Meter {
        let by = |source: &'static str| metrics::counter!(RECEIVED, "source" => source);
        Meter {
            received: AtomicU64::new(0),
            received_by: [by("notification"), by("in_process"), by("fallback_poller")],
            processed: Count::new(PROCESSED),
            failed: Count::new(FAILED),
            deduplicated: Count::new(DEDUPLICATED),
            lag: metrics::histogram!(LAG),
            last_lag: Mutex::default(),
            active: Level::new(ACTIVE),
            spawned: Count::new(SPAWNED),
            workers: Level::new(WORKERS),
            via_event: Count::new(VIA_EVENT),
            via_polling: Count::new(VIA_POLLING),
            conflicts: Count::new(CONFLICTS),
            depth: Level::new(DEPTH),
            throughput: metrics::histogram!(THROUGHPUT),
            last_throughput: AtomicU64::new(0),
            found: Count::new(FOUND),
            polls: AtomicU64::new(0),
            announced: Count::new(ANNOUNCED),
            untold: Count::new(UNTOLD),
        }
    }

    pub(crate) fn received(&self, source: EventSource) {
        self.received.fetch_add(1, Relaxed);
        self.received_by[source as usize].increment(1);
    }

    pub(crate) fn lag(&self, lag: Duration) {
        self.lag.record(lag.as_secs_f64());
        *locked(&self.last_lag) = Some((lag, Instant::now()));
    }

    /// How long the last event took, if it is not longer ago than this.
    pub(super) fn lag_within(&self, lately: Duration) -> Option<Duration> {
        locked(&self.last_lag).filter(|(_, at)| at.elapsed() < lately).map(|(lag, _)| lag)
    }

    pub(crate) fn throughput(&self, events: u64) {
        self.throughput.record(events as f64);
        self.last_throughput.store(events, Relaxed);
    }

    pub(crate) fn polled(&self, well: bool) {
        self.polls.fetch_add(1, Relaxed);
        metrics::counter!(ASKED, "outcome" => if well { "done" } else { "failed" }).increment(1);
    }

    pub(crate) fn snapshot(&self) -> EventDrivenMetrics {
        EventDrivenMetrics {
            notifications_received: self.received.load(Relaxed),
            notifications_processed: self.processed.get(),
            notifications_failed: self.failed.get(),
            notifications_deduplicated: self.deduplicated.get(),
            notification_lag: locked(&self.last_lag).map(|(lag, _)| lag),
            coordinators_active: self.active.get(),
            coordinators_spawned: self.spawned.get(),
            coordinator_worker_count: self.workers.get(),
            tasks_claimed_via_event: self.via_event.get(),
            tasks_claimed_via_polling: self.via_polling.get(),
            claim_conflicts: self.conflicts.get(),
            channel_queue_depth: self.depth.get(),
            channel_throughput: self.last_throughput.load(Relaxed),
            fallback_found: self.found.get(),
            fallback_polls: self.polls.load(Relaxed),
            announcements_sent: self.announced.get(),
            announcements_dropped: self.untold.get(),
        }
    }
}

impl std::fmt::Debug for Meter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.snapshot().fmt(f)
    }
}
