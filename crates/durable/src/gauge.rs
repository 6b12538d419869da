//! Answers that still hold.
//!
//! The runtime asks every minute how many instances run and how much waits, whether anything happened or not. Both answers read whole tables, and an idle
//! process must ask nothing. So an answer is given again while nothing is known to have changed it: this process has written nothing since, its dispatchers
//! wait with a listener that hears, and none of them was made to look. What others did without making anybody here look, such as a message that is due
//! later, is told after the fallback interval at the latest.

use std::sync::{Mutex, PoisonError};

use tokio::time::{Duration, Instant};

/// How much has happened here: every write and every look counts. `None`: things may happen unnoticed.
pub(crate) type Stir = Option<u64>;

/// An answer, and when and after how much it was given.
#[derive(Debug)]
pub(crate) struct Gauge<T>(Mutex<Option<(T, u64, Instant)>>);

impl<T> Default for Gauge<T> {
    fn default() -> Self {
        Gauge(Mutex::new(None))
    }
}

impl<T: Clone> Gauge<T> {
    /// The last answer, if nothing has happened since and it is younger than `lifetime`; else what is asked for now, after `stir`.
    pub(crate) async fn get_or<E>(
        &self,
        stir: Stir,
        lifetime: Duration,
        ask: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        if let Some(known) = self.get(stir, lifetime) {
            return Ok(known);
        }
        let answer = ask.await?;
        self.put(stir, &answer);
        Ok(answer)
    }

    fn get(&self, stir: Stir, lifetime: Duration) -> Option<T> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (answer, after, at) = last.as_ref()?;
        (stir == Some(*after) && at.elapsed() < lifetime).then(|| answer.clone())
    }

    fn put(&self, stir: Stir, answer: &T) {
        let kept = stir.map(|after| (answer.clone(), after, Instant::now()));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(300);

    /// An answer holds while nothing happens, and not for ever; where things happen unnoticed, never; and a failure is none.
    #[tokio::test(start_paused = true)]
    async fn an_answer_holds_while_nothing_happens() {
        let gauge = Gauge::default();
        let ask =
            async |stir: Stir, answer: Result<u32, &'static str>| gauge.get_or(stir, LIFETIME, async { answer }).await;
        assert_eq!(ask(Some(1), Err("away")).await, Err("away"));
        assert_eq!(ask(Some(1), Ok(10)).await, Ok(10));
        assert_eq!(ask(Some(1), Ok(11)).await, Ok(10));
        assert_eq!(ask(Some(2), Ok(12)).await, Ok(12), "something happened");
        assert_eq!(ask(None, Ok(13)).await, Ok(13), "something may have happened");
        assert_eq!(ask(Some(2), Ok(14)).await, Ok(14), "and nobody knows when");
        assert_eq!(ask(Some(2), Ok(15)).await, Ok(14));
        tokio::time::advance(LIFETIME).await;
        assert_eq!(ask(Some(2), Ok(16)).await, Ok(16), "it is old");
    }
}
