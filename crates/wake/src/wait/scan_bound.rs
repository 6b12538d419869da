//! The lower bound of a claim's index scan.
//!
//! Completed rows stay in the index of a queue as dead tuples for as long as any transaction in the database is old
//! enough to see them, and every claim has to skip them: some minutes of an idle transaction cost most of the
//! throughput. Work is claimed in order of its due time, so free rows are rarely far below the last claimed one: a
//! claim scans from there, less some *slack*. What can still lie below the bound (a commit that took long, a lease that
//! ended, an item that another process gave back with its old due time) is found by a full scan. While full scans are
//! cheap, every poll makes one, unless it follows closely on another. The more dead tuples they skip, the rarer they
//! become, down to one in five seconds.
//!
//! A busy group need not wait for its full scan: it can be made in the background, on another connection
//! ([`ScanBounds::defer_full_scans`]).

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How far below the last claim a scan begins: longer than nearly every commit takes.
const SLACK: Duration = Duration::from_millis(200);
/// A row that became due no longer ago than this is not below the bound: the other half of the slack is for the commit
/// that made it visible.
pub const RECENT: Duration = Duration::from_millis(SLACK.as_millis() as u64 / 2);
/// After a full scan, the next one follows after this many times what it took: full scans cost at most a twentieth of
/// the time.
const REST: u32 = 20;
/// The shortest and the longest rest. The longest is how long a row below the bound may go unnoticed.
const REST_SHORTEST: Duration = Duration::from_millis(20);
const REST_LONGEST: Duration = Duration::from_secs(5);
/// How long a write relies on a full scan having been cheap.
const CHEAP_FOR: Duration = Duration::from_secs(1);
/// A rest is at most this many times as long as the one before: a scan may have been slow because it waited for a lock
/// or the CPU, not because it skipped dead tuples.
const REST_GROWTH: u32 = 4;
/// If full scans rest for longer than this, a busy group defers them: see [`ScanBounds::defer_full_scans`].
const REST_EXPENSIVE: Duration = Duration::from_millis(200);
/// Groups remembered; beyond it all are forgotten, and make one full scan each.
const GROUPS_MAX: usize = 1_000;

#[derive(Debug)]
struct ScanBound {
    /// The due time of the last claim by the database's clock, in microseconds of the Unix epoch.
    due_us: i64,
    /// When to make the next full scan, and how long that is after the last one.
    full_scan_at: Instant,
    rest: Duration,
    /// When a full scan was last timed.
    timed_at: Option<Instant>,
    /// The due time of a row found below the bound, and when it was found; kept until a poll that began later has
    /// ended.
    below: Option<(i64, Instant)>,
    /// Until when a busy group leaves its full scan to the background.
    deferred_until: Option<Instant>,
    /// The background scan is running.
    is_deferred: bool,
}

impl ScanBound {
    fn new(due_us: i64, now: Instant) -> ScanBound {
        let (below, deferred_until, is_deferred) = (None, None, false);
        let (rest, timed_at) = (REST_SHORTEST, None);
        ScanBound { due_us, full_scan_at: now, rest, timed_at, below, deferred_until, is_deferred }
    }

    /// Where bounded scans start.
    fn bound_us(&self) -> i64 {
        self.due_us - SLACK.as_micros() as i64
    }

    /// The same, or a row that was found below.
    fn lowest_us(&self) -> i64 {
        self.below.map_or(self.bound_us(), |(below_us, _)| below_us.min(self.bound_us()))
    }

    /// Sets the rest after a full scan that took this long.
    fn set_rest(&mut self, took: Duration) {
        self.rest = (took * REST).clamp(REST_SHORTEST, REST_LONGEST.min(self.rest * REST_GROWTH));
    }
}

/// The scan lower bounds of a consumer's groups.
#[derive(Debug)]
pub struct ScanBounds<K> {
    state: Mutex<State<K>>,
}

#[derive(Debug)]
struct State<K> {
    bounds: HashMap<K, ScanBound>,
    /// How often all bounds were forgotten: a poll that began before that must not restore one.
    epoch: u64,
}

/// How one poll scans, and when it began.
#[derive(Debug, Clone, Copy)]
pub struct Scan {
    /// The lower bound of the due time, in microseconds of the Unix epoch; `None`: a full scan.
    pub bound_us: Option<i64>,
    since: Instant,
    /// How long until the next full scan.
    full_scan_in: Option<Duration>,
    epoch: u64,
    /// The poll is part of a write: its duration says nothing about its scan.
    in_write: bool,
}

impl Scan {
    /// When the poll began.
    pub fn since(&self) -> Instant {
        self.since
    }
}

impl<K: Eq + Hash + Clone> Default for ScanBounds<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Eq + Hash + Clone> ScanBounds<K> {
    /// No bounds yet. A row that became due within [`RECENT`] is not below its bound.
    pub fn new() -> Self {
        ScanBounds { state: Mutex::new(State { bounds: HashMap::new(), epoch: 0 }) }
    }

    /// Where the scan of a poll that begins now starts.
    pub fn begin(&self, key: &K, now: Instant) -> Scan {
        self.begin_busy(key, now, now)
    }

    /// The same for a group that is busy until then and leaves full scans to the background: see
    /// [`defer_full_scans`](Self::defer_full_scans).
    pub fn begin_busy(&self, key: &K, until: Instant, now: Instant) -> Scan {
        let State { bounds, epoch } = &*self.state.lock();
        let full = Scan { bound_us: None, since: now, full_scan_in: None, epoch: *epoch, in_write: false };
        let Some(bound) = bounds.get(key) else { return full };
        let deferred_until = bound.deferred_until.map_or(now, |deferred_until| deferred_until.min(until));
        let full_scan_at = bound.full_scan_at.max(deferred_until);
        if full_scan_at <= now {
            return full;
        }
        Scan {
            bound_us: Some(bound.lowest_us()),
            full_scan_in: Some(full_scan_at.saturating_duration_since(now)),
            ..full
        }
    }

    /// The same for a poll in the statement of a write. It makes a full scan only while those are known to be cheap,
    /// because callers wait for the write.
    pub fn begin_in_write(&self, key: &K, now: Instant) -> Scan {
        let scan = Scan { in_write: true, ..self.begin(key, now) };
        let state = self.state.lock();
        let Some(bound) = state.bounds.get(key).filter(|_| scan.bound_us.is_none()) else { return scan };
        let is_cheap = bound.rest == REST_SHORTEST
            && bound.timed_at.is_some_and(|timed| now.saturating_duration_since(timed) < CHEAP_FOR);
        if is_cheap {
            return scan;
        }
        Scan { bound_us: Some(bound.lowest_us()), full_scan_in: Some(bound.rest), ..scan }
    }

    /// A full scan that begins now.
    pub fn begin_unbounded(&self, now: Instant) -> Scan {
        let epoch = self.state.lock().epoch;
        Scan { bound_us: None, since: now, full_scan_in: None, epoch, in_write: false }
    }

    /// A poll has ended. `claimed_us` is the earliest due time of what it claimed; `None` means that it claimed nothing
    /// and nothing was free until `now_us`. Returns when the group must poll again at the latest; `None` after a full
    /// scan.
    pub fn end(
        &self,
        key: &K,
        scan: Scan,
        claimed_us: Option<i64>,
        now_us: Option<i64>,
        now: Instant,
    ) -> Option<Duration> {
        let State { bounds, epoch } = &mut *self.state.lock();
        if scan.epoch != *epoch {
            // A row that was given back since the poll began may lie below its bound, and its wake-up may have come
            // before.
            return scan.bound_us.map(|_| Duration::ZERO);
        }
        if bounds.len() >= GROUPS_MAX && !bounds.contains_key(key) {
            bounds.clear();
        }
        let is_full = scan.bound_us.is_none();
        let mut again = scan.full_scan_in;
        let first = || claimed_us.or(now_us).filter(|_| is_full).map(|due_us| ScanBound::new(due_us, now));
        if let Some(mut bound) = bounds.remove(key).or_else(first) {
            bound.due_us = claimed_us.or(now_us).unwrap_or(bound.due_us);
            bound.below.take_if(|(_, found_at)| *found_at < scan.since);
            if bound.below.is_some() {
                // It was found during this poll.
                again = Some(Duration::ZERO);
            }
            if is_full {
                (bound.deferred_until, bound.is_deferred) = (None, false);
                if !scan.in_write {
                    bound.set_rest(now.saturating_duration_since(scan.since));
                    bound.timed_at = Some(now);
                }
                bound.full_scan_at = now + bound.rest;
            }
            bounds.insert(key.clone(), bound);
        }
        again
    }

    /// For busy groups: those that are due for an expensive full scan, each with its bound. Their polls go on with a
    /// bound while the caller scans below it in the background, and then reports to
    /// [`full_scan_found`](Self::full_scan_found) or [`full_scan_failed`](Self::full_scan_failed). A group that is no
    /// longer busy makes its full scan itself: only then it learns what becomes due later.
    pub fn defer_full_scans<'a>(&self, keys: impl IntoIterator<Item = &'a K>, now: Instant) -> Vec<(K, i64)>
    where
        K: 'a,
    {
        let bounds = &mut self.state.lock().bounds;
        let mut deferred = Vec::new();
        for key in keys {
            let Some(bound) = bounds.get_mut(key) else { continue };
            let rest = bound.rest;
            let is_due =
                bound.full_scan_at <= now && bound.deferred_until.is_none_or(|deferred_until| deferred_until <= now);
            if is_due && rest > REST_EXPENSIVE {
                bound.deferred_until = Some(now + rest);
                if !std::mem::replace(&mut bound.is_deferred, true) {
                    deferred.push((key.clone(), bound.bound_us()));
                }
            }
        }
        deferred
    }

    /// A background scan has ended: the first free row below the bound was due at `found_us`, and the next poll scans
    /// from there.
    pub fn full_scan_found(&self, key: &K, found_us: Option<i64>, took: Duration, now: Instant) {
        if let Some(bound) = self.state.lock().bounds.get_mut(key) {
            bound.set_rest(took);
            bound.is_deferred = false;
            let known_us = bound.below.map(|(below_us, _)| below_us);
            bound.below = found_us.into_iter().chain(known_us).min().map(|below_us| (below_us, now));
        }
    }

    /// A background scan has failed: the next poll of the group makes a full scan.
    pub fn full_scan_failed(&self, key: &K) {
        if let Some(bound) = self.state.lock().bounds.get_mut(key) {
            (bound.is_deferred, bound.deferred_until) = (false, None);
        }
    }

    /// Rows with old due times may be free again: polls that begin after this make a full scan.
    pub fn forget(&self) {
        let State { bounds, epoch } = &mut *self.state.lock();
        bounds.clear();
        *epoch += 1;
    }
}

#[cfg(test)]
#[path = "scan_bound_tests.rs"]
mod tests;
