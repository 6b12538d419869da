//! Claiming a little ahead of those who are about to come.
//!
//! Where waiters come back every millisecond, a look for those who happen to be waiting serves one or two, and each of the others waits for a
//! round trip of its own. So a look of a busy group takes as many items more as are likely to be asked for before the next look could
//! answer, and who comes next has one at once.
//!
//! What is taken ahead is leased like anything else and nobody works on it yet, so it is kept for a moment only ([`KEEP`]) and then given
//! back, uncharged. And only a crowd earns it: who fetches alone, one item after the other, gets what it asked for and no more.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// How long an item is kept for somebody to come: what another process could be working on meanwhile.
const KEEP: Duration = Duration::from_millis(10);
/// The time that arrivals are counted over.
const WINDOW: Duration = Duration::from_millis(20);
/// For how long to provide: what a look and the answer to it take while the server is busy.
const LEAD: Duration = Duration::from_millis(5);
/// Items kept at a time. A process that dies leaves them to the end of their leases.
const MOST: usize = 16;

/// What a group has taken ahead, and how fast its waiters come.
pub(crate) struct Prefetch<I> {
    kept: VecDeque<(Instant, I)>,
    /// Arrivals within the window, older ones counting less and less.
    arrivals: f64,
    counted_at: Instant,
}

impl<I> Prefetch<I> {
    pub(crate) fn new(now: Instant) -> Self {
        Prefetch { kept: VecDeque::new(), arrivals: 0.0, counted_at: now }
    }

    /// A waiter came, and was not alone.
    pub(crate) fn arrived(&mut self, now: Instant) {
        self.arrivals = self.recent(now) + 1.0;
        self.counted_at = now;
    }

    fn recent(&self, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.counted_at);
        self.arrivals * (-passed.as_secs_f64() / WINDOW.as_secs_f64()).exp()
    }

    /// How many items a look that begins now may take ahead.
    pub(crate) fn room(&self, now: Instant) -> usize {
        let expected = self.recent(now) * LEAD.as_secs_f64() / WINDOW.as_secs_f64();
        (expected as usize).min(MOST).saturating_sub(self.kept.len())
    }

    /// Keeps an item for whoever comes next.
    pub(crate) fn keep(&mut self, item: I, now: Instant) {
        self.kept.push_back((now + KEEP, item));
    }

    /// The first item that fits somebody who just came. What is overdue is on its way back, however late the clock is.
    pub(crate) fn take(&mut self, now: Instant, fits: impl Fn(&I) -> bool) -> Option<I> {
        let place = self.kept.iter().position(|(until, item)| *until > now && fits(item))?;
        self.kept.remove(place).map(|(_, item)| item)
    }

    /// When the first of them must be given back.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.kept.front().map(|(until, _)| *until)
    }

    /// Those that nobody came for in time.
    pub(crate) fn overdue(&mut self, now: Instant) -> Vec<I> {
        let count = self.kept.partition_point(|(until, _)| *until <= now);
        self.kept.drain(..count).map(|(_, item)| item).collect()
    }

    /// All of them.
    pub(crate) fn drain(&mut self) -> Vec<I> {
        self.kept.drain(..).map(|(_, item)| item).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crowd(prefetch: &mut Prefetch<u32>, from: Instant, count: u32, gap: Duration) -> Instant {
        for number in 0..count {
            prefetch.arrived(from + gap * number);
        }
        from + gap * count
    }

    /// Nothing is taken ahead for few, for a steady crowd what it is about to ask for, and never more than the most.
    #[test]
    fn room_follows_the_arrivals() {
        let now = Instant::now();
        assert_eq!(Prefetch::<u32>::new(now).room(now), 0);
        let room = |count: u32, gap_us: u64| {
            let mut prefetch = Prefetch::new(now);
            let end = crowd(&mut prefetch, now, count, Duration::from_micros(gap_us));
            (prefetch.room(end), prefetch.room(end + WINDOW * 5))
        };
        assert_eq!(room(3, 100), (0, 0), "three are no crowd");
        assert_eq!(room(500, 10_000), (0, 0), "a hundred a second are served one by one");
        assert_eq!(room(500, 1_000), (4, 0), "a thousand a second, of which five come in the time of a look");
        assert_eq!(room(5_000, 20), (MOST, 1), "the most");
    }

    /// What is kept counts, is taken first come first served by whom it fits, and is overdue after a moment.
    #[test]
    fn kept_items_are_taken_or_overdue() {
        let now = Instant::now();
        let mut prefetch = Prefetch::new(now);
        let now = crowd(&mut prefetch, now, 5_000, Duration::from_micros(20));
        for item in 1..=4 {
            prefetch.keep(item, now + Duration::from_millis(u64::from(item)));
        }
        assert_eq!(prefetch.room(now), MOST - 4);
        assert_eq!(prefetch.take(now, |item| item % 2 == 0), Some(2));
        assert_eq!(prefetch.take(now, |_| true), Some(1));
        assert_eq!(prefetch.take(now, |item| *item > 4), None);
        assert_eq!(prefetch.take(now + KEEP + Duration::from_millis(3), |item| *item == 3), None, "it is overdue");
        assert_eq!(prefetch.until(), Some(now + KEEP + Duration::from_millis(3)));
        assert_eq!(prefetch.overdue(now + KEEP), Vec::<u32>::new());
        assert_eq!(prefetch.overdue(now + KEEP + Duration::from_millis(3)), vec![3]);
        assert_eq!(prefetch.drain(), vec![4]);
        assert!(prefetch.is_empty() && prefetch.until().is_none());
    }
}
