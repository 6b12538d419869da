//! The metrics of events and claims.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use reveille_wake::Metric;
use tokio::time::Instant;

use super::event::EventSource;

macro_rules! metrics {
    ($($id:ident = $name:literal, $kind:literal, $about:literal;)*) => {
        $(const $id: &str = $name;)*
        /// Every metric of this crate. `docs/metrics.md` lists exactly these.
        pub const METRICS: &[Metric] = &[$(Metric { name: $name, kind: $kind, about: $about }),*];
    };
}

metrics! {
    RECEIVED = "reveille_flow_notifications_received_total", "counter", "events of ready tasks that reached coordinators, by source (notification, in_process, fallback_poller)";
    PROCESSED = "reveille_flow_notifications_processed_total", "counter", "events that were processed";
    FAILED = "reveille_flow_notifications_failed_total", "counter", "events that were not processed: unreadable, channel full, or the handler failed";
    DEDUPLICATED = "reveille_flow_notifications_deduplicated_total", "counter", "events merged into others of the same task";
    LAG = "reveille_flow_notification_lag_seconds", "histogram", "from a commit of this process to its event: in process, and back through PostgreSQL";
    ACTIVE = "reveille_flow_coordinators_active", "gauge", "running coordinators";
    SPAWNED = "reveille_flow_coordinators_spawned_total", "counter", "coordinators started";
    WORKERS = "reveille_flow_coordinator_workers", "gauge", "handlers that the workers of coordinators may run at a time";
    VIA_EVENT = "reveille_flow_tasks_claimed_via_event_total", "counter", "steps claimed by waiting workers";
    VIA_POLLING = "reveille_flow_tasks_claimed_via_polling_total", "counter", "steps claimed by workers that poll, or that do not wait";
    CONFLICTS = "reveille_flow_claim_conflicts_total", "counter", "claims that found only steps which other claims had locked";
    DEPTH = "reveille_flow_channel_queue_depth", "gauge", "events that wait for their coordinator";
    THROUGHPUT = "reveille_flow_channel_throughput", "histogram", "events that a coordinator processed per second, for seconds with at least one";
    FOUND = "reveille_flow_fallback_found_total", "counter", "tasks that the fallback poller found ready and unclaimed for long; expected: none";
    FALLBACK_POLLS = "reveille_flow_fallback_polls_total", "counter", "runs of the fallback poller, by outcome (done, failed)";
    ATTEMPTS_ENDED = "reveille_flow_attempts_ended_total", "counter", "attempts that workers ended through this process, by the resulting state of the step";
    TASKS_ENDED = "reveille_flow_tasks_ended_total", "counter", "tasks that ended with one of these attempts, by state";
    REPORTS_FAILED = "reveille_flow_reports_failed_total", "counter", "reports of workers in Rust that took no effect, by reason (lost, rejected, failed)";
    ANNOUNCED = "reveille_flow_announcements_sent_total", "counter", "notifications sent to outside listeners";
    UNANNOUNCED = "reveille_flow_announcements_dropped_total", "counter", "changes of tasks that were not announced, because too many were waiting or the database failed";
}

/// Counts an attempt that its worker ended: by the state of the step, and of the task if that has ended, too.
pub(crate) fn count_reported(step: &'static str, task: Option<&'static str>) {
    metrics::counter!(ATTEMPTS_ENDED, "state" => step).increment(1);
    if let Some(task) = task {
        metrics::counter!(TASKS_ENDED, "state" => task).increment(1);
    }
}

/// Counts a report of a worker in Rust that took no effect and is not sent again: the lease was `lost`, the report was
/// `rejected`, or sending it `failed` until the lease ended.
pub(crate) fn count_failed_report(reason: &'static str) {
    metrics::counter!(REPORTS_FAILED, "reason" => reason).increment(1);
}

/// The counters since the start, named like the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct EventDrivenMetrics {
    /// Events of ready tasks that reached coordinators.
    pub notifications_received: u64,
    /// Events that were processed.
    pub notifications_processed: u64,
    /// Events that were not processed: unreadable, channel full, or the handler failed.
    pub notifications_failed: u64,
    /// Events merged into others of the same task.
    pub notifications_deduplicated: u64,
    /// The latest time from a commit of this process to its event.
    pub notification_lag: Option<Duration>,
    /// Running coordinators.
    pub coordinators_active: u64,
    /// Coordinators started.
    pub coordinators_spawned: u64,
    /// Handlers that the workers of coordinators may run at a time.
    pub coordinator_worker_count: u64,
    /// Steps claimed by waiting workers.
    pub tasks_claimed_via_event: u64,
    /// Steps claimed by workers that poll, or that do not wait.
    pub tasks_claimed_via_polling: u64,
    /// Claims that found only steps which other claims had locked.
    pub claim_conflicts: u64,
    /// Events that wait for their coordinator.
    pub channel_queue_depth: u64,
    /// Events that a coordinator processed in the last counted second.
    pub channel_throughput: u64,
    /// Tasks that the fallback poller found.
    pub fallback_found: u64,
    /// Runs of the fallback poller.
    pub fallback_polls: u64,
    /// Notifications sent to outside listeners.
    pub announcements_sent: u64,
    /// Changes of tasks that were not announced.
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
    pub(crate) unannounced: Count,
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
            unannounced: Count::new(UNANNOUNCED),
        }
    }

    pub(crate) fn received(&self, source: EventSource) {
        self.received.fetch_add(1, Relaxed);
        self.received_by[source as usize].increment(1);
    }

    pub(crate) fn lag(&self, lag: Duration) {
        self.lag.record(lag.as_secs_f64());
        *self.last_lag.lock() = Some((lag, Instant::now()));
    }

    /// The lag of the last event, if it is recent.
    pub(super) fn lag_within(&self, lately: Duration) -> Option<Duration> {
        self.last_lag.lock().filter(|(_, at)| at.elapsed() < lately).map(|(lag, _)| lag)
    }

    pub(crate) fn throughput(&self, events: u64) {
        self.throughput.record(events as f64);
        self.last_throughput.store(events, Relaxed);
    }

    pub(crate) fn polled(&self, well: bool) {
        self.polls.fetch_add(1, Relaxed);
        metrics::counter!(FALLBACK_POLLS, "outcome" => if well { "done" } else { "failed" }).increment(1);
    }

    pub(crate) fn snapshot(&self) -> EventDrivenMetrics {
        EventDrivenMetrics {
            notifications_received: self.received.load(Relaxed),
            notifications_processed: self.processed.get(),
            notifications_failed: self.failed.get(),
            notifications_deduplicated: self.deduplicated.get(),
            notification_lag: self.last_lag.lock().map(|(lag, _)| lag),
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
            announcements_dropped: self.unannounced.get(),
        }
    }
}

impl std::fmt::Debug for Meter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.snapshot().fmt(f)
    }
}
