//! Many events of one task within a short time are one.
//!
//! The first goes through at once. What follows within the window is held, and the latest of it goes through at the end of the window: nobody who acts on events misses the last one. An event that came before (by
//! another way, as a rule) is dropped. Pure and bounded: time comes as an argument, and a task that does not fit is not deduplicated.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::event::TaskReadyEvent;

/// Holds events of tasks that were heard of a moment ago.
#[derive(Debug)]
pub struct Deduplication {
    window: Duration,
    most: usize,
    heard: HashMap<Uuid, Heard>,
    /// When the window of each ends.
    ends: BTreeSet<(Instant, Uuid)>,
    dropped: u64,
}

#[derive(Debug)]
struct Heard {
    ends: Instant,
    /// Of the last event that went through.
    stamp: i64,
    held: Option<TaskReadyEvent>,
}

impl Deduplication {
    /// Events of a task within `window` are one; `most` tasks are remembered.
    pub fn new(window: Duration, most: usize) -> Deduplication {
        Deduplication { window, most, heard: HashMap::new(), ends: BTreeSet::new(), dropped: 0 }
    }

    /// Takes an event. Answers it if it is to go through now.
    pub fn offer(&mut self, event: TaskReadyEvent, now: Instant) -> Option<TaskReadyEvent> {
        let task = event.task_uuid;
        if let Some(heard) = self.heard.get_mut(&task) {
            let same = |other: i64| other == event.updated_at_us;
            let known = same(heard.stamp) || heard.held.as_ref().is_some_and(|held| same(held.updated_at_us));
            if known || heard.held.replace(event).is_some() {
                self.dropped += 1;
            }
            return None;
        }
        if self.heard.len() < self.most && !self.window.is_zero() {
            self.remember(task, event.updated_at_us, now);
        }
        Some(event)
    }

    /// When the next window ends.
    pub fn next(&self) -> Option<Instant> {
        self.ends.first().map(|(ends, _)| *ends)
    }

    /// What was held and is to go through now.
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

    /// Everything that is held, at the end.
    pub fn rest(&mut self) -> Vec<TaskReadyEvent> {
        let tasks: Vec<Uuid> = self.heard.keys().copied().collect();
        tasks.into_iter().filter_map(|task| self.forget(task)).collect()
    }

    /// How many events went into others.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn remember(&mut self, task: Uuid, stamp: i64, now: Instant) {
        let ends = now + self.window;
        self.heard.insert(task, Heard { ends, stamp, held: None });
        self.ends.insert((ends, task));
    }

    fn forget(&mut self, task: Uuid) -> Option<TaskReadyEvent> {
        let heard = self.heard.remove(&task)?;
        self.ends.remove(&(heard.ends, task));
        heard.held
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

    /// The first goes through, the second is held and replaced by the third, which goes through at the end of the window; the same event once more is dropped.
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
        /// Whatever comes: the latest event of every task goes through in the end, none goes through more often than once a window and its beginning, and no more is remembered than
        /// may be.
        #[test]
        fn the_latest_event_of_every_task_goes_through(
            most in 1usize..4, steps in prop::collection::vec((0u64..60, 0u128..3), 1..200),
        ) {
            let (mut events, mut now) = (Deduplication::new(WINDOW, most), Instant::now());
            let (mut told, mut last) = (HashMap::new(), HashMap::new());
            for (stamp, (ms, task)) in (1i64..).zip(steps) {
                now += Duration::from_millis(ms);
                let through = events.due(now).into_iter().chain(events.offer(event(task, stamp), now));
                for event in through.collect::<Vec<_>>() {
                    told.insert(event.task_uuid, event.updated_at_us);
                }
                last.insert(Uuid::from_u128(task), stamp);
                prop_assert!(events.heard.len() <= most && events.heard.len() == events.ends.len());
            }
            for event in events.rest() {
                told.insert(event.task_uuid, event.updated_at_us);
            }
            prop_assert_eq!(told, last);
            prop_assert!(events.heard.is_empty() && events.ends.is_empty());
        }
    }
}
