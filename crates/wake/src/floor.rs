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
/// Where looks that read everything rest for longer, a busy group does not wait for them: see [`Floors::leave_behind`].
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
struct Floor {
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

/// The floors of a consumer's groups.
#[derive(Debug)]
pub struct Floors<K> {
    /// How far before what was claimed last a look may read, the widest first.
    margins: &'static [Duration],
    known: Mutex<Known<K>>,
}

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
    /// How many wider ones there are.
    level: usize,
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
    /// No floors yet. What is no older than [`RECENT`] is before none of them.
    pub fn new() -> Self {
        Self::with(&[MARGIN])
    }

    /// No floors yet, of consumers whose looks follow closely on each other. What a slow commit has brought may be found a little later.
    pub fn narrow() -> Self {
        Self::with(&[MARGIN, NARROW])
    }

    fn with(margins: &'static [Duration]) -> Self {
        Floors { margins, known: Mutex::new(Known { floors: HashMap::new(), epoch: 0 }) }
    }

    fn known(&self) -> MutexGuard<'_, Known<K>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A look of a group begins: says from where it reads.
    pub fn begin(&self, key: &K, now: Instant) -> Reading {
        self.begin_busy(key, now, now)
    }

    /// The same of somebody who is busy until then, and leaves it to others to read everything: see [`Floors::leave_behind`].
    pub fn begin_busy(&self, key: &K, until: Instant, now: Instant) -> Reading {
        let Known { floors, epoch } = &*self.known();
        let everything = Reading { floor_us: None, level: 0, since: now, next_sweep: None, epoch: *epoch };
        let Some(Floor { due_us, behind, left_until, sweeps, .. }) = floors.get(key) else { return everything };
        let is_left_until = left_until.map_or(now, |left_until| left_until.min(until));
        let at = |level: usize| if level == 0 { sweeps[0].at.max(is_left_until) } else { sweeps[level].at };
        let level = (0..sweeps.len()).find(|level| at(*level) <= now).unwrap_or(sweeps.len());
        let Some(wider) = level.checked_sub(1) else { return everything };
        let floor_us = due_us - self.margins[wider].as_micros() as i64;
        Reading {
            floor_us: Some(behind.map_or(floor_us, |(behind_us, _)| behind_us.min(floor_us))),
            level,
            next_sweep: (0..level).map(|level| at(level).saturating_duration_since(now)).min(),
            ..everything
        }
    }

    /// A look begins that reads everything, whatever is known.
    pub fn begin_unbounded(&self, now: Instant) -> Reading {
        Reading { floor_us: None, level: 0, since: now, next_sweep: None, epoch: self.known().epoch }
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
        let Known { floors, epoch } = &mut *self.known();
        if reading.epoch != *epoch {
            // What is free again since it began may lie before its floor, and whoever freed it may have rung before it began.
            return reading.floor_us.map(|_| Duration::ZERO);
        }
        if floors.len() >= GROUPS_MAX && !floors.contains_key(key) {
            floors.clear();
        }
        let mut again = reading.next_sweep;
        let fresh = || {
            let sweeps = vec![Sweep { at: now, rest: REST_SHORTEST }; self.margins.len()];
            let due_us = claimed_us.or(now_us).filter(|_| reading.level == 0)?;
            Some(Floor { due_us, sweeps, ..Floor::default() })
        };
        if let Some(mut floor) = floors.remove(key).or_else(fresh) {
            floor.due_us = claimed_us.or(now_us).unwrap_or(floor.due_us);
            floor.behind.take_if(|(_, found_at)| *found_at < reading.since);
            if floor.behind.is_some() {
                // It was found while this look was under way.
                again = Some(Duration::ZERO);
            }
            if reading.level == 0 {
                (floor.left_until, floor.is_left) = (None, false);
            }
            // It has read what those with smaller margins read, too.
            for (level, sweep) in floor.sweeps.iter_mut().enumerate().skip(reading.level) {
                if level == reading.level {
                    let longest = if level == 0 { REST_LONGEST } else { REST_WIDER };
                    sweep.took(now.saturating_duration_since(reading.since), longest);
                }
                sweep.at = now + sweep.rest;
            }
            floors.insert(key.clone(), floor);
        }
        again
    }

    /// Of the groups of somebody who is busy those whose turn it is to read everything, where that takes long. They go on with their floors, and what
    /// lies before these, which is answered, is read beside their looks; then [`found_behind`](Self::found_behind) is told, or
    /// [`not_read`](Self::not_read). Who is not busy any more reads everything itself: only then it knows what is due later.
    pub fn leave_behind<'a>(&self, keys: impl IntoIterator<Item = &'a K>, now: Instant) -> Vec<(K, i64)>
    where
        K: 'a,
    {
        let floors = &mut self.known().floors;
        let mut behind = Vec::new();
        for key in keys {
            let Some(floor) = floors.get_mut(key) else { continue };
            let Sweep { at, rest } = floor.sweeps[0];
            let is_due = at <= now && floor.left_until.is_none_or(|left_until| left_until <= now);
            if is_due && rest > REST_DEAR {
                floor.left_until = Some(now + rest);
                if !std::mem::replace(&mut floor.is_left, true) {
                    behind.push((key.clone(), floor.due_us - self.margins[0].as_micros() as i64));
                }
            }
        }
        behind
    }

    /// What lay before the floor of a group has been read beside its looks: the first of it was due at `found_us`, from where the next look reads.
    pub fn found_behind(&self, key: &K, found_us: Option<i64>, took: Duration, now: Instant) {
        if let Some(floor) = self.known().floors.get_mut(key) {
            floor.sweeps[0].took(took, REST_LONGEST);
            floor.is_left = false;
            let known_us = floor.behind.map(|(behind_us, _)| behind_us);
            floor.behind = found_us.into_iter().chain(known_us).min().map(|behind_us| (behind_us, now));
        }
    }

    /// What lies before the floor of a group was not read: its next look does it.
    pub fn not_read(&self, key: &K) {
        if let Some(floor) = self.known().floors.get_mut(key) {
            (floor.is_left, floor.left_until) = (false, None);
        }
    }

    /// Something old may be free again: looks that begin after this read everything.
    pub fn forget(&self) {
        let Known { floors, epoch } = &mut *self.known();
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

    /// With a second margin most looks read from there, and from the first as often as it is cheap; whoever has not read everything is told when to.
    #[tokio::test(start_paused = true)]
    async fn a_second_margin_makes_the_first_rare() {
        let floors = Floors::narrow();
        let (claimed, narrow, wide) = (Some(5_000_000), Some(4_950_000), Some(4_800_000));
        let ms = Duration::from_millis;
        let look = async |took: u64| {
            let reading = floors.begin(&"key", Instant::now());
            tokio::time::advance(ms(took)).await;
            (reading.floor_us, floors.end(&"key", reading, claimed, None, Instant::now()))
        };
        assert_eq!(
            look(10).await,
            (None, None),
            "it has seen everything: the next after 80 ms, with the first margin after 20"
        );
        assert_eq!(look(0).await, (narrow, Some(ms(20))), "before everything, what is within the first margin");
        tokio::time::advance(ms(20)).await;
        assert_eq!(look(5).await, (wide, Some(ms(60))), "it took long: once more after 80 ms");
        assert_eq!(look(0).await, (narrow, Some(ms(55))));
        tokio::time::advance(ms(55)).await;
        assert_eq!(look(10).await, (None, None), "it counts for the first margin, too");
        tokio::time::advance(ms(79)).await;
        assert_eq!(look(0).await, (narrow, Some(ms(1))));
        tokio::time::advance(ms(1)).await;
        assert_eq!(
            look(10).await,
            (wide, Some(ms(120))),
            "once more after a hundred milliseconds, however long it takes"
        );
        tokio::time::advance(ms(99)).await;
        assert_eq!(look(0).await, (narrow, Some(ms(1))));
    }

    /// Who is busy leaves it to somebody else to read everything where that takes long, and reads what was found there: once, also if a look was under
    /// way when it was found. Who is not busy reads everything itself, and so does everybody if who was to do it could not.
    #[tokio::test(start_paused = true)]
    async fn who_is_busy_does_not_wait_for_everything() {
        let floors = Floors::new();
        let (claimed, floor, found) = (Some(5_000_000), Some(4_800_000), Some(1_000_000));
        let ms = Duration::from_millis;
        for took in [2, 12, 12] {
            assert_eq!(floors.leave_behind([&"key"], Instant::now()), [], "it is not dear yet");
            let everything = floors.begin(&"key", Instant::now());
            assert_eq!(everything.floor_us, None);
            tokio::time::advance(ms(took)).await;
            floors.end(&"key", everything, claimed, None, Instant::now());
            tokio::time::advance(ms(took * 20)).await;
        }
        assert_eq!(floors.leave_behind([&"key", &"other"], Instant::now()), [("key", 4_800_000)]);
        assert_eq!(floors.leave_behind([&"key"], Instant::now()), [], "somebody does it already");
        let soon = Instant::now() + ms(100);
        let under_way = floors.begin_busy(&"key", soon, Instant::now());
        assert_eq!(under_way.floor_us, floor);
        tokio::time::advance(ms(40)).await;
        floors.found_behind(&"key", found, ms(40), Instant::now());
        let again = floors.end(&"key", under_way, claimed, None, Instant::now());
        assert_eq!(again, Some(Duration::ZERO), "it has not seen what was found meanwhile");
        tokio::time::advance(ms(1)).await;
        let next = floors.begin_busy(&"key", soon, Instant::now());
        assert_eq!(next.floor_us, found);
        floors.end(&"key", next, claimed, None, Instant::now());
        assert_eq!(floors.begin_busy(&"key", soon, Instant::now()).floor_us, floor);
        assert_eq!(floors.begin(&"key", Instant::now()).floor_us, None, "who is not busy");

        tokio::time::advance(ms(240)).await;
        let later = Instant::now() + ms(5_000);
        assert_eq!(floors.leave_behind([&"key"], Instant::now()), [("key", 4_800_000)]);
        assert_eq!(floors.begin_busy(&"key", later, Instant::now()).next_sweep, Some(ms(800)), "twenty times 40");
        tokio::time::advance(ms(800)).await;
        assert_eq!(floors.leave_behind([&"key"], Instant::now()), [], "it is under way");
        assert_eq!(floors.begin_busy(&"key", later, Instant::now()).floor_us, floor);
        floors.not_read(&"key");
        let itself = floors.begin_busy(&"key", later, Instant::now());
        assert_eq!(itself.floor_us, None, "nobody has done it");
        floors.end(&"key", itself, claimed, None, Instant::now());
        tokio::time::advance(ms(800)).await;
        assert_eq!(floors.leave_behind([&"key"], Instant::now()).len(), 0, "it took no time, and is not dear any more");
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
