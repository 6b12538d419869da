//! Cached answers.
//!
//! The runtime asks every minute how many instances run and how long the queues are. Both answers read whole tables, and
//! an idle process must not query the database. So an answer is used again while nothing is known to have changed it:
//! this process has written nothing, its dispatchers wait with a connected listener, and none of them has polled. Changes
//! by other processes that cause no poll here, such as a timer, show after the fallback interval at the latest.

use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

/// The number of writes and polls of this process so far. `None`: changes may go unnoticed.
pub(crate) type Activity = Option<u64>;

/// An answer, with the activity and the time when it was read.
#[derive(Debug)]
pub(crate) struct Cached<T>(Mutex<Option<(T, u64, Instant)>>);

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Cached(Mutex::new(None))
    }
}

impl<T: Clone> Cached<T> {
    /// The last answer, if there was no activity since and it is younger than `lifetime`; else a new one.
    pub(crate) async fn get_or<E>(
        &self,
        activity: Activity,
        lifetime: Duration,
        read: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        if let Some(answer) = self.get(activity, lifetime) {
            return Ok(answer);
        }
        let answer = read.await?;
        self.put(activity, &answer);
        Ok(answer)
    }

    fn get(&self, activity: Activity, lifetime: Duration) -> Option<T> {
        let last = self.0.lock();
        let (answer, after, at) = last.as_ref()?;
        (activity == Some(*after) && at.elapsed() < lifetime).then(|| answer.clone())
    }

    fn put(&self, activity: Activity, answer: &T) {
        let cached = activity.map(|after| (answer.clone(), after, Instant::now()));
        *self.0.lock() = cached;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(300);

    /// An answer is used again while nothing happens, up to its lifetime. It is not cached if changes may go unnoticed, and
    /// neither is an error.
    #[tokio::test(start_paused = true)]
    async fn an_answer_is_used_again_while_nothing_happens() {
        let cached = Cached::default();
        let ask = async |activity: Activity, answer: Result<u32, &'static str>| {
            cached.get_or(activity, LIFETIME, async { answer }).await
        };
        assert_eq!(ask(Some(1), Err("away")).await, Err("away"));
        assert_eq!(ask(Some(1), Ok(10)).await, Ok(10));
        assert_eq!(ask(Some(1), Ok(11)).await, Ok(10));
        assert_eq!(ask(Some(2), Ok(12)).await, Ok(12), "something happened");
        assert_eq!(ask(None, Ok(13)).await, Ok(13), "something may have happened");
        assert_eq!(ask(Some(2), Ok(14)).await, Ok(14), "and at an unknown time");
        assert_eq!(ask(Some(2), Ok(15)).await, Ok(14));
        tokio::time::advance(LIFETIME).await;
        assert_eq!(ask(Some(2), Ok(16)).await, Ok(16), "it is old");
    }
}
