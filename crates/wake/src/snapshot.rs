//! A reading of the database for people and monitoring, repeated only when it may have changed.
//!
//! Figures such as depth and lag are read from tables, and monitoring asks for them every few seconds for ever. Three dangers: an idle
//! server would no longer be idle, a large schema would be read all the time, and a slow database would collect such readings. So a
//! [`Snapshot`] is taken again only if [`Wake::activity`](crate::Wake::activity) has grown, never costs more than
//! a fiftieth of the time, and is never taken twice at once. A caller in between gets the last one, with its age: what grows by
//! itself, such as the age of the oldest message, is then a matter of arithmetic.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

/// A reading is repeated after this at the earliest: less than any usual scrape interval.
const SHORTEST: Duration = Duration::from_secs(1);
/// And after so many times what the last one took: so readings take at most a fiftieth of one connection's time.
const SHARE: u32 = 50;
/// No pause is longer than this, however long a reading took.
const LONGEST: Duration = Duration::from_secs(300);
/// How long an answer waits for a reading under way before it gives the last one.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// How long one reading may take: pass it to [`Database::ask_within`](pg::Database::ask_within).
pub const READ_WITHIN: Duration = Duration::from_secs(5);

/// The last reading of a kind of figures. Cheap to clone; all clones are one.
pub struct Snapshot<T>(Arc<Inner<T>>);

struct Inner<T> {
    state: Mutex<State<T>>,
    /// Held by the reading.
    turn: Arc<Semaphore>,
}

struct State<T> {
    last: Option<Taken<T>>,
    /// The activity before the last reading that succeeded.
    seen: Option<u64>,
    /// No reading before this.
    not_before: Option<Instant>,
    failures: u64,
}

struct Taken<T> {
    value: Arc<T>,
    at: Instant,
}

/// A reading, and how old it is.
#[derive(Debug)]
pub struct Aged<T> {
    /// What was read.
    pub value: Arc<T>,
    /// How long ago.
    pub age: Duration,
}

impl<T> State<T> {
    fn is_due(&self, activity: u64, now: Instant) -> bool {
        self.seen != Some(activity) && self.not_before.is_none_or(|at| at <= now)
    }

    fn pause(&mut self, began: Instant, now: Instant) {
        let took = now.saturating_duration_since(began);
        self.not_before = Some(now + (took * SHARE).clamp(SHORTEST, LONGEST));
    }

    fn taken(&mut self, value: T, activity: u64, began: Instant, now: Instant) {
        self.last = Some(Taken { value: Arc::new(value), at: began });
        self.seen = Some(activity);
        self.pause(began, now);
    }

    fn failed(&mut self, began: Instant, now: Instant) {
        self.failures += 1;
        self.pause(began, now);
    }
}

impl<T: Send + Sync + 'static> Snapshot<T> {
    /// Takes a reading if the last one may be out of date, and answers the newest there is. `None`: there is none yet.
    ///
    /// `activity` is read before `read` begins, so that whatever happens meanwhile counts as new.
    ///
    /// # Cancel safety
    /// A reading that has begun goes on in a task of its own.
    pub async fn get<F>(&self, activity: u64, read: impl FnOnce() -> F) -> Option<Aged<T>>
    where
        F: Future<Output = pg::Result<T>> + Send + 'static,
    {
        let is_due = self.state().is_due(activity, Instant::now());
        if is_due && let Ok(turn) = self.0.turn.clone().try_acquire_owned() {
            let (snapshot, reading) = (self.clone(), read());
            tokio::spawn(async move {
                let began = Instant::now();
                let read = reading.await;
                let now = Instant::now();
                match read {
                    Ok(value) => snapshot.state().taken(value, activity, began, now),
                    Err(error) => {
                        tracing::debug!(error = pg::causes(&error), "figures could not be read");
                        snapshot.state().failed(began, now);
                    }
                }
                drop(turn);
            });
        }
        // The reading gives the turn back at its end. Without a reading this returns at once.
        let _ = timeout(ANSWER_WITHIN, self.0.turn.acquire()).await;
        let state = self.state();
        state.last.as_ref().map(|last| Aged { value: last.value.clone(), age: last.at.elapsed() })
    }

    /// How many readings have failed.
    pub fn failures(&self) -> u64 {
        self.state().failures
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for Snapshot<T> {
    fn default() -> Self {
        let state = State { last: None, seen: None, not_before: None, failures: 0 };
        Snapshot(Arc::new(Inner { state: Mutex::new(state), turn: Arc::new(Semaphore::new(1)) }))
    }
}

impl<T> Clone for Snapshot<T> {
    fn clone(&self) -> Self {
        Snapshot(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::time::advance;

    use super::*;

    async fn read(
        snapshot: &Snapshot<u32>,
        activity: u64,
        reads: &Arc<AtomicU32>,
        takes: Duration,
    ) -> Option<Aged<u32>> {
        let reads = reads.clone();
        let reading = || async move {
            tokio::time::sleep(takes).await;
            Ok(reads.fetch_add(1, Ordering::Relaxed) + 1)
        };
        snapshot.get(activity, reading).await
    }

    /// Without activity nothing is read again, however often and late it is asked for; its age grows. With activity it is read once
    /// the pause is over.
    #[tokio::test(start_paused = true)]
    async fn it_is_read_again_only_after_activity() {
        let (snapshot, reads) = (Snapshot::default(), Arc::new(AtomicU32::new(0)));
        for (activity, later, value) in [(1, 0, 1), (1, 3_600, 1), (2, 0, 2), (3, 0, 2), (3, 1, 3)] {
            advance(Duration::from_secs(later)).await;
            let aged = read(&snapshot, activity, &reads, Duration::ZERO).await.expect("it was read");
            assert_eq!(*aged.value, value, "at activity {activity}");
            assert_eq!(aged.age >= Duration::from_secs(3_600), later == 3_600);
        }
    }

    /// A reading that takes long is not waited for for ever, is not begun twice, and is followed by a long pause.
    #[tokio::test(start_paused = true)]
    async fn a_slow_reading_is_taken_once_and_seldom() {
        let (snapshot, reads) = (Snapshot::default(), Arc::new(AtomicU32::new(0)));
        let slow = ANSWER_WITHIN * 3 / 2;
        assert!(read(&snapshot, 1, &reads, slow).await.is_none(), "it takes longer than an answer waits");
        assert!(read(&snapshot, 2, &reads, slow).await.is_some(), "the first is still under way, and then there");
        assert_eq!(reads.load(Ordering::Relaxed), 1);
        advance(slow * SHARE / 2).await;
        read(&snapshot, 3, &reads, Duration::ZERO).await;
        assert_eq!(reads.load(Ordering::Relaxed), 1, "it pauses for fifty times as long");
        advance(slow * SHARE).await;
        read(&snapshot, 4, &reads, Duration::ZERO).await;
        assert_eq!(reads.load(Ordering::Relaxed), 2);
    }

    /// A reading that fails keeps the last one, counts, and is tried again.
    #[tokio::test(start_paused = true)]
    async fn a_failure_keeps_the_last_reading() {
        let (snapshot, reads) = (Snapshot::default(), Arc::new(AtomicU32::new(0)));
        read(&snapshot, 1, &reads, Duration::ZERO).await;
        advance(Duration::from_secs(2)).await;
        let failing = || async { Err(pg::Error::Exhausted) };
        assert_eq!(*snapshot.get(2, failing).await.expect("the last one").value, 1);
        assert_eq!(snapshot.failures(), 1);
        advance(Duration::from_secs(2)).await;
        assert_eq!(*read(&snapshot, 2, &reads, Duration::ZERO).await.expect("another").value, 2);
    }
}
