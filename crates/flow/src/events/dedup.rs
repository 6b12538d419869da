//! Merges the events of a task within a short time.
//!
//! The first event passes at once. Later ones within the window are held, and the latest of them passes at the end of
//! the window, so that the last event is never missing. An event that has passed or is held already (it usually arrives
//! by two routes) is dropped. Pure and bounded: time is an argument, and events of tasks beyond the bound pass
//! unchanged.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::event::TaskReadyEvent;

/// Holds events of tasks that had an event within the window.
#[derive(Debug)]
pub struct Deduplication {
    window: Duration,
    most: usize,
    recent: HashMap<Uuid, Recent>,
    /// When the window of each ends.
    ends: BTreeSet<(Instant, Uuid)>,
    dropped: u64,
}

#[derive(Debug)]
struct Recent {
    ends: Instant,
    /// The stamp of the last event that passed.
    stamp: i64,
    held: Option<TaskReadyEvent>,
}

impl Deduplication {
    /// Merges events of a task within `window`, of at most `most` tasks.
    pub fn new(window: Duration, most: usize) -> Deduplication {
        Deduplication { window, most, recent: HashMap::new(), ends: BTreeSet::new(), dropped: 0 }
    }

    /// Adds an event. Returns it if it passes now.
    pub fn offer(&mut self, event: TaskReadyEvent, now: Instant) -> Option<TaskReadyEvent> {
        let task = event.task_uuid;
        if let Some(recent) = self.recent.get_mut(&task) {
            let same = |other: i64| other == event.updated_at_us;
            let duplicate = same(recent.stamp) || recent.held.as_ref().is_some_and(|held| same(held.updated_at_us));
            if duplicate || recent.held.replace(event).is_some() {
                self.dropped += 1;
            }
            return None;
        }
        if self.recent.len() < self.most && !self.window.is_zero() {
            self.remember(task, event.updated_at_us, now);
        }
        Some(event)
    }

    /// When the next window ends.
    pub fn next(&self) -> Option<Instant> {
        self.ends.first().map(|(ends, _)| *ends)
    }

    /// The held events that pass now.
    pub fn due(&mut self, now: Instant) -> Vec<TaskReadyEvent> {
        let mut due = Vec::new();
        while let Some((_, task)) = self.ends.first().copied().filter(|(ends, _)| *ends <= now) {
            due.extend(self.forget(task));
        }
        for event in &due {
            self.remember(event.task_uuid, event.updated_at_us, now);
        }
        due
    }

    /// All held events, at the end.
    pub fn rest(&mut self) -> Vec<TaskReadyEvent> {
        let tasks: Vec<Uuid> = self.recent.keys().copied().collect();
        tasks.into_iter().filter_map(|task| self.forget(task)).collect()
    }

    /// The number of merged events.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn remember(&mut self, task: Uuid, stamp: i64, now: Instant) {
        let ends = now + self.window;
        self.recent.insert(task, Recent { ends, stamp, held: None });
        self.ends.insert((ends, task));
    }

    fn forget(&mut self, task: Uuid) -> Option<TaskReadyEvent> {
        let recent = self.recent.remove(&task)?;
        self.ends.remove(&(recent.ends, task));
        recent.held
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::event::EventSource;
    use super::*;

    const WINDOW: Duration = Duration::from_millis(100);

    fn event(task: u128, stamp: i64) -> TaskReadyEvent {
        TaskReadyEvent {
            task_uuid: Uuid::from_u128(task),
            namespace: "n".to_owned(),
            priority: 0,
            ready_steps: 1,
            updated_at_us: stamp,
            source: EventSource::InProcess,
        }
    }

    /// The first event passes, the second is held and replaced by the third, which passes at the end of the window; the
    /// same event again is dropped.
    #[test]
    fn the_last_of_many_goes_through_at_the_end() {
        let (mut events, start) = (Deduplication::new(WINDOW, 10), Instant::now());
        assert_eq!(events.offer(event(1, 1), start), Some(event(1, 1)));
        for stamp in [1, 2, 3, 3] {
            assert_eq!(events.offer(event(1, stamp), start), None);
        }
        assert_eq!(events.offer(event(2, 1), start), Some(event(2, 1)));
        assert!(events.due(start + WINDOW / 2).is_empty());
        assert_eq!(events.due(start + WINDOW), [event(1, 3)]);
        assert_eq!(events.offer(event(1, 3), start + WINDOW), None);
        assert_eq!((events.due(start + WINDOW * 2), events.next()), (vec![], None));
        assert_eq!(events.dropped(), 4);
    }

    proptest! {
        /// The latest event of every task passes in the end, at most one per window and at its start, and the memory
        /// stays bounded.
        #[test]
        fn the_latest_event_of_every_task_goes_through(
            most in 1usize..4, steps in prop::collection::vec((0u64..60, 0u128..3), 1..200),
        ) {
            let (mut events, mut now) = (Deduplication::new(WINDOW, most), Instant::now());
            let (mut passed, mut last) = (HashMap::new(), HashMap::new());
            for (stamp, (ms, task)) in (1i64..).zip(steps) {
                now += Duration::from_millis(ms);
                let through = events.due(now).into_iter().chain(events.offer(event(task, stamp), now));
                for event in through.collect::<Vec<_>>() {
                    passed.insert(event.task_uuid, event.updated_at_us);
                }
                last.insert(Uuid::from_u128(task), stamp);
                prop_assert!(events.recent.len() <= most && events.recent.len() == events.ends.len());
            }
            for event in events.rest() {
                passed.insert(event.task_uuid, event.updated_at_us);
            }
            prop_assert_eq!(passed, last);
            prop_assert!(events.recent.is_empty() && events.ends.is_empty());
        }
    }
}
