//! A signal that something may have changed, for screens that show what is in the database.
//!
//! A screen that polls keeps an idle database busy. [`Changes`] compares counters in memory
//! ([`Wake::activity`](crate::Wake::activity)) instead: a subscriber hears of a change soon after it, then at most once
//! a second while changes go on, and once after the last one. While nothing happens it hears nothing, and no statement
//! is sent. What the screen then reads must not count as activity, or every screen would wake itself: see
//! [`reveille_pg::observing`].

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// How often the counters are compared: a delay that a person does not notice.
const COMPARE_EVERY: Duration = Duration::from_millis(100);
/// The shortest time between two signals to a subscriber.
const PAUSE: Duration = Duration::from_secs(1);

/// Reads a counter in memory.
type Counter = Box<dyn Fn() -> u64 + Send + Sync>;

/// The change signal of some products. Cheap to clone.
#[derive(Clone)]
pub struct Changes(Arc<Inner>);

struct Inner {
    products: Vec<(&'static str, Counter)>,
    closed: watch::Sender<bool>,
}

/// What one screen hears.
pub struct Subscription {
    changes: Changes,
    seen: Vec<u64>,
    /// No signal before this.
    not_before: Instant,
    closed: watch::Receiver<bool>,
}

impl Changes {
    /// The signal of these products, each with its counter.
    pub fn of(products: impl IntoIterator<Item = (&'static str, Counter)>) -> Changes {
        Changes(Arc::new(Inner { products: products.into_iter().collect(), closed: watch::Sender::new(false) }))
    }

    /// Hears of changes from now on.
    pub fn subscribe(&self) -> Subscription {
        let closed = self.0.closed.subscribe();
        Subscription { seen: self.counts(), changes: self.clone(), not_before: Instant::now(), closed }
    }

    /// The names of the products.
    pub fn products(&self) -> impl Iterator<Item = &'static str> {
        self.0.products.iter().map(|(name, _)| *name)
    }

    /// Ends all subscriptions.
    pub fn close(&self) {
        self.0.closed.send_replace(true);
    }

    fn counts(&self) -> Vec<u64> {
        self.0.products.iter().map(|(_, count)| count()).collect()
    }
}

impl Subscription {
    /// Waits for a change; returns the products that have changed since the last one. `None`: the process stops.
    ///
    /// # Cancel safety
    /// Dropping the future loses no change.
    pub async fn next(&mut self) -> Option<Vec<&'static str>> {
        loop {
            tokio::select! {
                _ = self.closed.wait_for(|closed| *closed) => return None,
                () = sleep_until(self.not_before) => {}
            }
            let counts = self.changes.counts();
            let names = self.changes.products().zip(&counts).zip(&self.seen);
            let changed: Vec<&str> = names.filter(|((_, now), seen)| now != seen).map(|((name, _), _)| name).collect();
            if !changed.is_empty() {
                self.seen = counts;
                self.not_before = Instant::now() + PAUSE;
                return Some(changed);
            }
            tokio::select! {
                _ = self.closed.wait_for(|closed| *closed) => return None,
                () = sleep(COMPARE_EVERY) => {}
            }
        }
    }
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.products()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::time::{advance, timeout};

    use super::*;

    /// A subscriber hears of a change at once, of many changes once a second with the last one included, and of nothing
    /// while nothing happens; the end of the process ends the wait. The clock is simulated.
    #[tokio::test(start_paused = true)]
    async fn changes_are_signalled_at_most_once_a_second_and_never_while_idle() {
        let counts = [Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0))];
        let counter = |index: usize| -> Counter {
            let count = counts[index].clone();
            Box::new(move || count.load(Ordering::Relaxed))
        };
        let changes = Changes::of([("queue", counter(0)), ("flow", counter(1))]);
        let mut heard = changes.subscribe();
        assert!(timeout(Duration::from_secs(3_600), heard.next()).await.is_err(), "nothing has happened");

        counts[1].fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        assert_eq!(heard.next().await, Some(vec!["flow"]));
        assert!(began.elapsed() <= COMPARE_EVERY);
        for _ in 0..5 {
            counts[0].fetch_add(1, Ordering::Relaxed);
            advance(Duration::from_millis(1)).await;
        }
        assert_eq!(heard.next().await, Some(vec!["queue"]));
        assert!(began.elapsed() >= PAUSE, "the second signal waits");
        assert!(timeout(Duration::from_secs(3_600), heard.next()).await.is_err(), "one signal for all of them");
        changes.close();
        assert_eq!(heard.next().await, None);
    }
}
