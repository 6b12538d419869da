//! Time that a test can move.
//!
//! Due times and leases are compared with one clock. Left alone it runs with the machine's; a test that must see a
//! lease end moves it instead of sleeping, and all waiters for a due time poll again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;
use tokio::time::Instant;

/// A timestamp in microseconds since the Unix epoch: fine enough that two calls rarely share one, as in PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(u64);

impl Time {
    pub(crate) fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    pub(crate) fn millis(self) -> u64 {
        self.0 / 1_000
    }

    /// `duration` later; the end of time for a duration beyond it.
    pub(crate) fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros(duration)))
    }

    /// How long from `earlier` until here; zero if this is not later.
    fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// The clock of a [`MemoryProvider`](crate::MemoryProvider). Clones are the same clock.
#[derive(Debug, Clone)]
pub struct Clock(Arc<Face>);

#[derive(Debug)]
struct Face {
    /// What the clock showed when it was made.
    origin: Time,
    /// When that was; `None` for a clock that only moves by hand.
    started: Option<Instant>,
    /// Moved by hand since then, in microseconds.
    moved: AtomicU64,
    /// Notified by every move, for waiters that sleep until a due time.
    changes: Notify,
}

impl Clock {
    /// A clock that runs with the machine's (and with tokio's, where a test pauses it).
    pub fn running() -> Self {
        Self::new(Some(Instant::now()))
    }

    /// A clock that stands still until [`advance`](Self::advance): leases end exactly when a test says so.
    pub fn stopped() -> Self {
        Self::new(None)
    }

    fn new(started: Option<Instant>) -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(Arc::new(Face {
            origin: Time(micros(since_epoch)),
            started,
            moved: AtomicU64::new(0),
            changes: Notify::new(),
        }))
    }

    /// Moves the clock forward and wakes every fetch that waits, so that it sees what has become due.
    pub fn advance(&self, by: Duration) {
        self.0.moved.fetch_add(micros(by), Ordering::SeqCst);
        self.0.changes.notify_waiters();
    }

    /// Milliseconds since the Unix epoch, the unit of `TimerFired::fire_at_ms`.
    pub fn now_ms(&self) -> u64 {
        self.now().millis()
    }

    pub(crate) fn now(&self) -> Time {
        let run = self.0.started.map(|started| started.elapsed()).unwrap_or_default();
        self.0.origin.after(run).after(Duration::from_micros(self.0.moved.load(Ordering::SeqCst)))
    }

    /// When the machine reaches `due` if the clock is not moved; `None` if it never will.
    pub(crate) fn reaches(&self, due: Time) -> Option<Instant> {
        self.0.started?;
        Instant::now().checked_add(due.since(self.now()))
    }

    /// Notified by every move.
    pub(crate) fn changes(&self) -> &Notify {
        &self.0.changes
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
