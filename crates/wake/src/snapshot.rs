//! Cached figures for monitoring, read again only if they may have changed.
//!
//! Figures such as depth and lag are read from tables, and monitoring asks for them every few seconds. Three dangers:
//! an idle server would no longer be idle, a large schema would be read all the time, and on a slow database such
//! queries would pile up. So a [`Snapshot`] is read again only if [`Wake::activity`](crate::Wake::activity) has grown,
//! takes at most a fiftieth of the time, and is never read twice at once. Between reads a caller gets the last value
//! with its age, and can add that to figures that grow by themselves, such as the age of the oldest message.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

/// The shortest pause between reads: less than any usual scrape interval.
const SHORTEST: Duration = Duration::from_secs(1);
/// The pause is this many times what the last read took, so that reads take at most a fiftieth of one connection's
/// time.
const SHARE: u32 = 50;
/// The longest pause, however long a read took.
const LONGEST: Duration = Duration::from_secs(300);
/// How long a caller waits for a running read before it gets the last value.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// How long one read may take: pass it to [`Database::ask_within`](reveille_pg::Database::ask_within).
pub const READ_WITHIN: Duration = Duration::from_secs(5);

/// The last read value of some figures. Cheap to clone; clones share the value.
pub struct Snapshot<T>(Arc<Inner<T>>);

struct Inner<T> {
    state: Mutex<State<T>>,
    /// Held by the running read.
    permit: Arc<Semaphore>,
}

struct State<T> {
    last: Option<Read<T>>,
    /// The activity before the last successful read.
    activity: Option<u64>,
    /// No read before this.
    not_before: Option<Instant>,
    failures: u64,
}

struct Read<T> {
    value: Arc<T>,
    at: Instant,
}

/// A value, and how old it is.
#[derive(Debug)]
pub struct Aged<T> {
    /// The value.
    pub value: Arc<T>,
    /// How long ago it was read.
    pub age: Duration,
}

impl<T> State<T> {
    fn is_due(&self, activity: u64, now: Instant) -> bool {
        self.activity != Some(activity) && self.not_before.is_none_or(|at| at <= now)
    }

    fn pause(&mut self, began: Instant, now: Instant) {
        let took = now.saturating_duration_since(began);
        self.not_before = Some(now + (took * SHARE).clamp(SHORTEST, LONGEST));
    }

    fn succeeded(&mut self, value: T, activity: u64, began: Instant, now: Instant) {
        self.last = Some(Read { value: Arc::new(value), at: began });
        self.activity = Some(activity);
        self.pause(began, now);
    }

    fn failed(&mut self, began: Instant, now: Instant) {
        self.failures += 1;
        self.pause(began, now);
    }
}

impl<T: Send + Sync + 'static> Snapshot<T> {
    /// Reads the value again if it may be out of date, and returns the newest one. `None`: there is none yet.
    ///
    /// `activity` must be taken before `read` begins, so that activity during the read counts as new.
    ///
    /// # Cancel safety
    /// A read that has begun continues in a task of its own.
    pub async fn get<F>(&self, activity: u64, read: impl FnOnce() -> F) -> Option<Aged<T>>
    where
        F: Future<Output = reveille_pg::Result<T>> + Send + 'static,
    {
        let is_due = self.0.state.lock().is_due(activity, Instant::now());
        if is_due && let Ok(permit) = self.0.permit.clone().try_acquire_owned() {
            let (snapshot, reading) = (self.clone(), read());
            tokio::spawn(async move {
                let began = Instant::now();
                let read = reading.await;
                let now = Instant::now();
                match read {
                    Ok(value) => snapshot.0.state.lock().succeeded(value, activity, began, now),
                    Err(error) => {
                        tracing::debug!(error = reveille_pg::causes(&error), "cannot read figures");
                        snapshot.0.state.lock().failed(began, now);
                    }
                }
                drop(permit);
            });
        }
        // The permit is free when the read has ended. Without a read this returns at once.
        let _ = timeout(ANSWER_WITHIN, self.0.permit.acquire()).await;
        let state = self.0.state.lock();
        state.last.as_ref().map(|last| Aged { value: last.value.clone(), age: last.at.elapsed() })
    }

    /// How many reads have failed.
    pub fn failures(&self) -> u64 {
        self.0.state.lock().failures
    }
}

impl<T> Default for Snapshot<T> {
    fn default() -> Self {
        let state = State { last: None, activity: None, not_before: None, failures: 0 };
        Snapshot(Arc::new(Inner { state: Mutex::new(state), permit: Arc::new(Semaphore::new(1)) }))
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

    /// Without activity the value is not read again, however often and late it is requested; its age grows. With
    /// activity it is read once the pause is over.
    #[tokio::test(start_paused = true)]
    async fn a_value_is_read_again_only_after_activity() {
        let (snapshot, reads) = (Snapshot::default(), Arc::new(AtomicU32::new(0)));
        for (activity, later, value) in [(1, 0, 1), (1, 3_600, 1), (2, 0, 2), (3, 0, 2), (3, 1, 3)] {
            advance(Duration::from_secs(later)).await;
            let aged = read(&snapshot, activity, &reads, Duration::ZERO).await.expect("a value");
            assert_eq!(*aged.value, value, "at activity {activity}");
            assert_eq!(aged.age >= Duration::from_secs(3_600), later == 3_600);
        }
    }

    /// A caller waits only so long for a slow read, which is not begun twice and is followed by a long pause.
    #[tokio::test(start_paused = true)]
    async fn a_slow_read_is_made_once_and_rarely() {
        let (snapshot, reads) = (Snapshot::default(), Arc::new(AtomicU32::new(0)));
        let slow = ANSWER_WITHIN * 3 / 2;
        assert!(read(&snapshot, 1, &reads, slow).await.is_none(), "the read takes longer than a caller waits");
        assert!(read(&snapshot, 2, &reads, slow).await.is_some(), "the first read is still running, and then ends");
        assert_eq!(reads.load(Ordering::Relaxed), 1);
        advance(slow * SHARE / 2).await;
        read(&snapshot, 3, &reads, Duration::ZERO).await;
        assert_eq!(reads.load(Ordering::Relaxed), 1, "it pauses for fifty times as long");
        advance(slow * SHARE).await;
        read(&snapshot, 4, &reads, Duration::ZERO).await;
        assert_eq!(reads.load(Ordering::Relaxed), 2);
    }

    /// A failed read keeps the last value, is counted, and is tried again.
    #[tokio::test(start_paused = true)]
    async fn a_failed_read_keeps_the_last_value() {
        let (snapshot, reads) = (Snapshot::default(), Arc::new(AtomicU32::new(0)));
        read(&snapshot, 1, &reads, Duration::ZERO).await;
        advance(Duration::from_secs(2)).await;
        let failing = || async { Err(reveille_pg::Error::Exhausted) };
        assert_eq!(*snapshot.get(2, failing).await.expect("the last value").value, 1);
        assert_eq!(snapshot.failures(), 1);
        advance(Duration::from_secs(2)).await;
        assert_eq!(*read(&snapshot, 2, &reads, Duration::ZERO).await.expect("a new value").value, 2);
    }
}
