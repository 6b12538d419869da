//! How far back a claim has to read.
//!
//! A queue leaves what has been claimed and deleted in front of its index for as long as any transaction in the database is old enough to see
//! it, and every claim wades through it: minutes of an idle transaction cost most of the throughput. Work is claimed in order of its due
//! time, so nothing free is left far before what was claimed last: a claim reads from there, with a margin. What can lie before it all the
//! same (a commit that took long, a lease that ended, an item that another process gave back to its old place) is found by a look without a
//! floor. As long as such a look costs little it is every one that does not follow closely on another; only where it has much to wade through they
//! become rare, down to one in five seconds.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How far before the last claim it is still read: longer than a commit takes as a rule. What was done within it is waded through at every look.
const MARGIN: Duration = Duration::from_millis(200);
/// What came no longer ago than this is surely not before a floor: the other half of the margin is for the commit that brought it.
pub const RECENT: Duration = Duration::from_millis(MARGIN.as_millis() as u64 / 2);
/// A look without a floor is followed by looks with one for this many times as long as it took: they cost a twentieth of the time at most.
const REST: u32 = 20;
/// At least for this long; and how long what lies before the floor may go unnoticed.
const REST_SHORTEST: Duration = Duration::from_millis(20);
const REST_LONGEST: Duration = Duration::from_secs(5);
/// How many times longer it may be than the one before: a look that waited, for a lock or the machine, is not one that waded.
const REST_GROWTH: u32 = 4;
/// Groups remembered; beyond it all are forgotten, and look without a floor once.
const GROUPS_MAX: usize = 1_000;

#[derive(Debug, Clone, Copy)]
struct Floor {
    /// By the database's clock, in microseconds of the Unix epoch.
    due_us: i64,
    /// When to look without it.
    sweep_at: Instant,
    /// How long that was after the last such look.
    rest: Duration,
}

/// The floors of a consumer's groups.
#[derive(Debug)]
pub struct Floors<K>(Mutex<Known<K>>);

#[derive(Debug)]
struct Known<K> {
    floors: HashMap<K, Floor>,
    /// How often all were forgotten: a look that began before that must not bring one back.
    epoch: u64,
}

/// How one look reads, and when it began.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// From where; `None`: everything.
    pub floor_us: Option<i64>,
    since: Instant,
    next_sweep: Option<Duration>,
    epoch: u64,
}

impl Reading {
    /// When the look was sent.
    pub fn since(&self) -> Instant {
        self.since
    }
}

impl<K: Eq + Hash + Clone> Default for Floors<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Eq + Hash + Clone> Floors<K> {
    /// No floors yet.
    pub fn new() -> Self {
        Floors(Mutex::new(Known { floors: HashMap::new(), epoch: 0 }))
    }

    /// A look of a group begins: says from where it reads.
    pub fn begin(&self, key: &K, now: Instant) -> Reading {
        let Known { floors, epoch } = &*self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bounded = floors.get(key).and_then(|floor| {
            let rest = floor.sweep_at.checked_duration_since(now).filter(|rest| !rest.is_zero())?;
            Some((floor.due_us - MARGIN.as_micros() as i64, rest))
        });
        let (floor_us, next_sweep) = bounded.unzip();
        Reading { floor_us, since: now, next_sweep, epoch: *epoch }
    }

    /// A look begins that reads everything, whatever is known.
    pub fn begin_unbounded(&self, now: Instant) -> Reading {
        let Known { epoch, .. } = &*self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Reading { floor_us: None, since: now, next_sweep: None, epoch: *epoch }
    }

    /// A look has ended: what it claimed was due from `claimed_us` on. `None`: it claimed nothing, and there was nothing free until `now_us`.
    /// Answers when the group must look again at the latest, `None` if it has seen everything.
    pub fn end(
        &self,
        key: &K,
        reading: Reading,
        claimed_us: Option<i64>,
        now_us: Option<i64>,
        now: Instant,
    ) -> Option<Duration> {
        let Known { floors, epoch } = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if reading.epoch != *epoch {
            // What is free again since it began may lie before its floor, and whoever freed it may have rung before it began.
            return reading.floor_us.map(|_| Duration::ZERO);
        }
        if floors.len() >= GROUPS_MAX {
            floors.clear();
        }
        let before = floors.get(key).copied();
        let sweep = match reading.floor_us {
            None => {
                let took = now.saturating_duration_since(reading.since);
                let most = REST_LONGEST.min(before.map_or(REST_SHORTEST, |floor| floor.rest) * REST_GROWTH);
                let rest = (took * REST).clamp(REST_SHORTEST, most);
                Some((now + rest, rest))
            }
            Some(_) => before.map(|floor| (floor.sweep_at, floor.rest)),
        };
        let due_us = claimed_us.or(now_us).or_else(|| before.map(|floor| floor.due_us));
        if let (Some((sweep_at, rest)), Some(due_us)) = (sweep, due_us) {
            floors.insert(key.clone(), Floor { due_us, sweep_at, rest });
        }
        reading.next_sweep
    }

    /// Something old may be free again: looks that begin after this read everything.
    pub fn forget(&self) {
        let Known { floors, epoch } = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        floors.clear();
        *epoch += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first look reads everything, those that follow closely from what was claimed on, and then one everything again: the later the longer it
    /// takes, but not later than five seconds, nor much later than before.
    #[tokio::test(start_paused = true)]
    async fn looks_that_cost_much_are_rare() {
        let floors = Floors::new();
        for (took_ms, rest_ms) in [(0, 20), (400, 80), (10, 200), (400, 800), (400, 3_200), (400, 5_000), (49, 980)] {
            let first = floors.begin(&"key", Instant::now());
            assert_eq!(first.floor_us, None);
            tokio::time::advance(Duration::from_millis(took_ms)).await;
            let end = Instant::now();
            assert_eq!(floors.end(&"key", first, Some(5_000_000), None, end), None, "it has seen everything");

            tokio::time::advance(Duration::from_millis(rest_ms - 5)).await;
            let second = floors.begin(&"key", Instant::now());
            assert_eq!(second.floor_us, Some(4_800_000));
            let again = floors.end(&"key", second, Some(6_000_000), None, Instant::now());
            assert_eq!(again, Some(Duration::from_millis(5)), "what lies before the floor is looked for in time");
            tokio::time::advance(Duration::from_millis(4)).await;
            assert_eq!(floors.begin(&"key", Instant::now()).floor_us, Some(5_800_000));
            tokio::time::advance(Duration::from_millis(1)).await;
            assert_eq!(floors.begin(&"key", Instant::now()).floor_us, None, "after {took_ms} ms");
        }
    }

    /// An abandoned item lies in its old place, before the floor.
    #[tokio::test(start_paused = true)]
    async fn forgotten_floors_bound_nothing() {
        let floors = Floors::new();
        let first = floors.begin(&1, Instant::now());
        floors.end(&1, first, None, Some(9_000_000), Instant::now());
        assert_eq!(floors.begin(&1, Instant::now()).floor_us, Some(8_800_000));
        floors.forget();
        assert_eq!(floors.begin(&1, Instant::now()).floor_us, None);
    }

    /// What was abandoned during a look may have been missed by it, so what the look found is no floor for the next.
    #[tokio::test(start_paused = true)]
    async fn a_look_that_was_under_way_sets_no_floor_that_was_forgotten() {
        let floors = Floors::new();
        let everything = floors.begin(&1, Instant::now());
        floors.forget();
        assert_eq!(
            floors.end(&1, everything, Some(9_000_000), None, Instant::now()),
            None,
            "it has seen everything that rang before"
        );
        let next = floors.begin(&1, Instant::now());
        assert_eq!(next.floor_us, None);
        floors.end(&1, next, Some(9_000_000), None, Instant::now());

        let bounded = floors.begin(&1, Instant::now());
        assert_eq!(bounded.floor_us, Some(8_800_000));
        floors.forget();
        assert_eq!(
            floors.end(&1, bounded, None, Some(9_500_000), Instant::now()),
            Some(Duration::ZERO),
            "it looks again at once"
        );
        assert_eq!(floors.begin(&1, Instant::now()).floor_us, None);
    }
}
