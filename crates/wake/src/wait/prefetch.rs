//! Prefetching: claiming a few items for waiters that are about to come.
//!
//! If waiters come back every millisecond, a poll made for those that happen to wait serves one or two, and each of the
//! others waits for a round trip of its own. So a poll of a busy group claims as many more items as are likely to be
//! requested before the next poll could return, and the next waiters get theirs at once.
//!
//! A prefetched item is leased although it is not worked on yet, so it is held only for a moment ([`HOLD`]) and then
//! given back, and the attempt is not counted. Only frequent waiters cause prefetching: a single waiter that claims one
//! item after another gets what it asked for and no more.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// How long an item is held for a waiter to come: meanwhile no other process can work on it.
const HOLD: Duration = Duration::from_millis(10);
/// The time over which arrivals are counted.
const WINDOW: Duration = Duration::from_millis(20);
/// The time for which to prefetch: about what a poll takes on a busy server.
const LEAD: Duration = Duration::from_millis(5);
/// Items held at a time. If the process dies, they stay leased until their leases end.
const MOST: usize = 16;

/// The prefetched items of a group, and how often waiters come.
pub(crate) struct Prefetch<I> {
    /// Each with the time until which it is held, in order of that time.
    items: VecDeque<(Instant, I)>,
    /// Arrivals within the window; older ones count less and less.
    arrivals: f64,
    counted_at: Instant,
}

impl<I> Prefetch<I> {
    pub(crate) fn new(now: Instant) -> Self {
        Prefetch { items: VecDeque::new(), arrivals: 0.0, counted_at: now }
    }

    /// Counts a waiter that came and was not the only one.
    pub(crate) fn arrived(&mut self, now: Instant) {
        self.arrivals = self.recent(now) + 1.0;
        self.counted_at = now;
    }

    fn recent(&self, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.counted_at);
        self.arrivals * (-passed.as_secs_f64() / WINDOW.as_secs_f64()).exp()
    }

    /// How many items a poll that begins now may prefetch.
    pub(crate) fn room(&self, now: Instant) -> usize {
        let expected = self.recent(now) * LEAD.as_secs_f64() / WINDOW.as_secs_f64();
        (expected as usize).min(MOST).saturating_sub(self.items.len())
    }

    /// Adds an item for the next waiter.
    pub(crate) fn add(&mut self, item: I, now: Instant) {
        self.items.push_back((now + HOLD, item));
    }

    /// Takes the first item that fits. Overdue items are not handed out, even if their timer has not fired yet.
    pub(crate) fn take(&mut self, now: Instant, fits: impl Fn(&I) -> bool) -> Option<I> {
        let index = self.items.iter().position(|(until, item)| *until > now && fits(item))?;
        self.items.remove(index).map(|(_, item)| item)
    }

    /// When the first item must be given back.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.items.front().map(|(until, _)| *until)
    }

    /// Takes the items that no waiter took in time.
    pub(crate) fn overdue(&mut self, now: Instant) -> Vec<I> {
        let count = self.items.partition_point(|(until, _)| *until <= now);
        self.items.drain(..count).map(|(_, item)| item).collect()
    }

    /// Takes all items.
    pub(crate) fn drain(&mut self) -> Vec<I> {
        self.items.drain(..).map(|(_, item)| item).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrive(prefetch: &mut Prefetch<u32>, from: Instant, count: u32, gap: Duration) -> Instant {
        for number in 0..count {
            prefetch.arrived(from + gap * number);
        }
        from + gap * count
    }

    /// A few waiters cause no prefetching; frequent ones cause as much as they are about to request, up to the maximum.
    #[test]
    fn room_follows_the_arrivals() {
        let now = Instant::now();
        assert_eq!(Prefetch::<u32>::new(now).room(now), 0);
        let room = |count: u32, gap_us: u64| {
            let mut prefetch = Prefetch::new(now);
            let end = arrive(&mut prefetch, now, count, Duration::from_micros(gap_us));
            (prefetch.room(end), prefetch.room(end + WINDOW * 5))
        };
        assert_eq!(room(3, 100), (0, 0), "three waiters are few");
        assert_eq!(room(500, 10_000), (0, 0), "a hundred a second are served one by one");
        assert_eq!(room(500, 1_000), (4, 0), "of a thousand a second, five come during a poll");
        assert_eq!(room(5_000, 20), (MOST, 1), "the maximum");
    }

    /// Held items count against the room, are taken in order by waiters they fit, and are overdue after a moment.
    #[test]
    fn held_items_are_taken_or_overdue() {
        let now = Instant::now();
        let mut prefetch = Prefetch::new(now);
        let now = arrive(&mut prefetch, now, 5_000, Duration::from_micros(20));
        for item in 1..=4 {
            prefetch.add(item, now + Duration::from_millis(u64::from(item)));
        }
        assert_eq!(prefetch.room(now), MOST - 4);
        assert_eq!(prefetch.take(now, |item| item % 2 == 0), Some(2));
        assert_eq!(prefetch.take(now, |_| true), Some(1));
        assert_eq!(prefetch.take(now, |item| *item > 4), None);
        assert_eq!(
            prefetch.take(now + HOLD + Duration::from_millis(3), |item| *item == 3),
            None,
            "the item is overdue"
        );
        assert_eq!(prefetch.until(), Some(now + HOLD + Duration::from_millis(3)));
        assert_eq!(prefetch.overdue(now + HOLD), Vec::<u32>::new());
        assert_eq!(prefetch.overdue(now + HOLD + Duration::from_millis(3)), vec![3]);
        assert_eq!(prefetch.drain(), vec![4]);
        assert!(prefetch.is_empty() && prefetch.until().is_none());
    }
}
