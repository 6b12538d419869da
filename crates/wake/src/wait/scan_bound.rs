//! How far back a claim has to read.
//!
//! A queue leaves what has been claimed and deleted in front of its index for as long as any transaction in the database is old enough to see
//! it, and every claim wades through it: minutes of an idle transaction cost most of the throughput. Work is claimed in order of its due
//! time, so nothing free is left far before what was claimed last: a claim reads from there, with a margin. What can lie before it all the
//! same (a commit that took long, a lease that ended, an item that another process gave back to its old place) is found by a look without a
//! floor. As long as such a look costs little it is every one that does not follow closely on another; only where it has much to wade through they
//! become rare, down to one in five seconds.
//!
//! Who has much to claim need not wait for such a look either: it may be done beside the others, on another connection.
//!
//! A claimed item is waded through for as long as it is within the margin: with thousands of claims in a second, by hundreds of looks. So there may
//! be a second margin, which is as small as commits are as a rule, and the first becomes a look of its own, as rare as it is dear.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How far before the last claim it is still read: longer than nearly every commit takes. What was done within it is waded through.
const MARGIN: Duration = Duration::from_millis(200);
/// The same of most looks where many follow on each other: longer than a write takes as a rule, from the time it notes as due to its commit.
const NARROW: Duration = Duration::from_millis(50);
/// What came no longer ago than this is surely not before the wider floor: the other half of the margin is for the commit that brought it.
pub const RECENT: Duration = Duration::from_millis(MARGIN.as_millis() as u64 / 2);
/// A look that reads far is followed by looks that do not for this many times as long as it took: it costs a twentieth of the time at most.
const REST: u32 = 20;
/// At least for this long; and how long what lies before the floor may go unnoticed.
const REST_SHORTEST: Duration = Duration::from_millis(20);
const REST_LONGEST: Duration = Duration::from_secs(5);
/// The same of the wider margin: what a commit brought that took longer than the narrow one is within the wider when that is read next.
const REST_WIDER: Duration = RECENT;
/// How many times longer it may be than the one before: a look that waited, for a lock or the machine, is not one that waded.
const REST_GROWTH: u32 = 4;
/// Where looks that read everything rest for longer, a busy group does not wait for them: see [`ScanBounds::defer_full_scans`].
const REST_DEAR: Duration = Duration::from_millis(200);
/// Groups remembered; beyond it all are forgotten, and look without a floor once.
const GROUPS_MAX: usize = 1_000;

/// When to read as far as this again.
#[derive(Debug, Clone, Copy)]
struct Sweep {
    at: Instant,
    /// How long that was after the last such look.
    rest: Duration,
}

impl Sweep {
    /// It took so long.
    fn took(&mut self, took: Duration, longest: Duration) {
        self.rest = (took * REST).clamp(REST_SHORTEST, longest.min(self.rest * REST_GROWTH));
    }
}

#[derive(Debug, Default)]
struct ScanBound {
    /// By the database's clock, in microseconds of the Unix epoch.
    due_us: i64,
    /// Where something was found before it, and when: no look that began since has ended.
    behind: Option<(i64, Instant)>,
    /// Until when who is busy leaves it to somebody else to read everything.
    left_until: Option<Instant>,
    /// That is under way.
    is_left: bool,
    /// Of everything, then of each margin but the last, which is what is read else.
    sweeps: Vec<Sweep>,
}

/// The bounds of a consumer's groups.
#[derive(Debug)]
pub struct ScanBounds<K> {
    /// How far before what was claimed last a look may read, the widest first.
    margins: &'static [Duration],
    known: Mutex<Known<K>>,
}

#[derive(Debug)]
struct Known<K> {
    bounds: HashMap<K, ScanBound>,
    /// How often all were forgotten: a look that began before that must not bring one back.
    epoch: u64,
}

/// How one look reads, and when it began.
#[derive(Debug, Clone, Copy)]
pub struct Scan {
    /// From where; `None`: everything.
    pub bound_us: Option<i64>,
    /// How many wider ones there are.
    level: usize,
    since: Instant,
    next_sweep: Option<Duration>,
    epoch: u64,
}

impl Scan {
    /// When the look was sent.
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
    /// No bounds yet. What is no older than [`RECENT`] is before none of them.
    pub fn new() -> Self {
        Self::with(&[MARGIN])
    }

    /// No bounds yet, of consumers whose looks follow closely on each other. What a slow commit has brought may be found a little later.
    pub fn short_slack() -> Self {
        Self::with(&[MARGIN, NARROW])
    }

    fn with(margins: &'static [Duration]) -> Self {
        ScanBounds { margins, known: Mutex::new(Known { bounds: HashMap::new(), epoch: 0 }) }
    }

    fn known(&self) -> MutexGuard<'_, Known<K>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A look of a group begins: says from where it reads.
    pub fn begin(&self, key: &K, now: Instant) -> Scan {
        self.begin_busy(key, now, now)
    }

    /// The same of somebody who is busy until then, and leaves it to others to read everything: see [`ScanBounds::defer_full_scans`].
    pub fn begin_busy(&self, key: &K, until: Instant, now: Instant) -> Scan {
        self.begin_within(key, self.margins.len(), until, now)
    }

    /// The same of somebody who does not wait, and so has no later look to find what this one passes over: with the widest margin at least.
    pub fn begin_not_waiting(&self, key: &K, until: Instant, now: Instant) -> Scan {
        self.begin_within(key, 1, until, now)
    }

    /// With so many margins at most.
    fn begin_within(&self, key: &K, margins: usize, until: Instant, now: Instant) -> Scan {
        let Known { bounds, epoch } = &*self.known();
        let everything = Scan { bound_us: None, level: 0, since: now, next_sweep: None, epoch: *epoch };
        let Some(ScanBound { due_us, behind, left_until, sweeps, .. }) = bounds.get(key) else { return everything };
        let is_left_until = left_until.map_or(now, |left_until| left_until.min(until));
        let at = |level: usize| if level == 0 { sweeps[0].at.max(is_left_until) } else { sweeps[level].at };
        let level = (0..margins).find(|level| at(*level) <= now).unwrap_or(margins);
        let Some(wider) = level.checked_sub(1) else { return everything };
        let bound_us = due_us - self.margins[wider].as_micros() as i64;
        Scan {
            bound_us: Some(behind.map_or(bound_us, |(behind_us, _)| behind_us.min(bound_us))),
            level,
            next_sweep: (0..level).map(|level| at(level).saturating_duration_since(now)).min(),
            ..everything
        }
    }

    /// A look begins that reads everything, whatever is known.
    pub fn begin_unbounded(&self, now: Instant) -> Scan {
        Scan { bound_us: None, level: 0, since: now, next_sweep: None, epoch: self.known().epoch }
    }

    /// A look has ended: what it claimed was due from `claimed_us` on. `None`: it claimed nothing, and there was nothing free until `now_us`.
    /// Answers when the group must look again at the latest, `None` if it has seen everything.
    pub fn end(
        &self,
        key: &K,
        reading: Scan,
        claimed_us: Option<i64>,
        now_us: Option<i64>,
        now: Instant,
    ) -> Option<Duration> {
        let Known { bounds, epoch } = &mut *self.known();
        if reading.epoch != *epoch {
            // What is free again since it began may lie before its floor, and whoever freed it may have rung before it began.
            return reading.bound_us.map(|_| Duration::ZERO);
        }
        if bounds.len() >= GROUPS_MAX && !bounds.contains_key(key) {
            bounds.clear();
        }
        let mut again = reading.next_sweep;
        let fresh = || {
            let sweeps = vec![Sweep { at: now, rest: REST_SHORTEST }; self.margins.len()];
            let due_us = claimed_us.or(now_us).filter(|_| reading.level == 0)?;
            Some(ScanBound { due_us, sweeps, ..ScanBound::default() })
        };
        if let Some(mut bound) = bounds.remove(key).or_else(fresh) {
            bound.due_us = claimed_us.or(now_us).unwrap_or(bound.due_us);
            bound.behind.take_if(|(_, found_at)| *found_at < reading.since);
            if bound.behind.is_some() {
                // It was found while this look was under way.
                again = Some(Duration::ZERO);
            }
            if reading.level == 0 {
                (bound.left_until, bound.is_left) = (None, false);
            }
            // It has read what those with smaller margins read, too.
            for (level, sweep) in bound.sweeps.iter_mut().enumerate().skip(reading.level) {
                if level == reading.level {
                    let longest = if level == 0 { REST_LONGEST } else { REST_WIDER };
                    sweep.took(now.saturating_duration_since(reading.since), longest);
                }
                sweep.at = now + sweep.rest;
            }
            bounds.insert(key.clone(), bound);
        }
        again
    }

    /// Of the groups of somebody who is busy those whose turn it is to read everything, where that takes long. They go on with their bounds, and what
    /// lies before these, which is answered, is read beside their looks; then [`full_scan_found`](Self::full_scan_found) is told, or
    /// [`full_scan_failed`](Self::full_scan_failed). Who is not busy any more reads everything itself: only then it knows what is due later.
    pub fn defer_full_scans<'a>(&self, keys: impl IntoIterator<Item = &'a K>, now: Instant) -> Vec<(K, i64)>
    where
        K: 'a,
    {
        let bounds = &mut self.known().bounds;
        let mut behind = Vec::new();
        for key in keys {
            let Some(bound) = bounds.get_mut(key) else { continue };
            let Sweep { at, rest } = bound.sweeps[0];
            let is_due = at <= now && bound.left_until.is_none_or(|left_until| left_until <= now);
            if is_due && rest > REST_DEAR {
                bound.left_until = Some(now + rest);
                if !std::mem::replace(&mut bound.is_left, true) {
                    behind.push((key.clone(), bound.due_us - self.margins[0].as_micros() as i64));
                }
            }
        }
        behind
    }

    /// What lay before the floor of a group has been read beside its looks: the first of it was due at `found_us`, from where the next look reads.
    pub fn full_scan_found(&self, key: &K, found_us: Option<i64>, took: Duration, now: Instant) {
        if let Some(bound) = self.known().bounds.get_mut(key) {
            bound.sweeps[0].took(took, REST_LONGEST);
            bound.is_left = false;
            let known_us = bound.behind.map(|(behind_us, _)| behind_us);
            bound.behind = found_us.into_iter().chain(known_us).min().map(|behind_us| (behind_us, now));
        }
    }

    /// What lies before the floor of a group was not read: its next look does it.
    pub fn full_scan_failed(&self, key: &K) {
        if let Some(bound) = self.known().bounds.get_mut(key) {
            (bound.is_left, bound.left_until) = (false, None);
        }
    }

    /// Something old may be free again: looks that begin after this read everything.
    pub fn forget(&self) {
        let Known { bounds, epoch } = &mut *self.known();
        bounds.clear();
        *epoch += 1;
    }
}

#[cfg(test)]
#[path = "scan_bound_tests.rs"]
mod tests;
