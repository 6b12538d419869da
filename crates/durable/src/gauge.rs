//! Answers that still hold.
//!
//! The runtime asks every minute how many instances run and how much waits, whether anything happened or not. Both answers read whole tables, and an idle
//! process must ask nothing. So an answer is given again while nothing can have changed it: this process has written nothing since, its dispatchers
//! wait with a listener that hears, and none of them was made to look. What others did without ringing anybody is seen by the next fallback at the
//! latest, like everything that is noticed by rings.

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
    /// The last answer, if nothing has happened since and it is younger than `lifetime`.
    pub(crate) fn get(&self, stir: Stir, lifetime: Duration) -> Option<T> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (answer, after, at) = last.as_ref()?;
        (stir == Some(*after) && at.elapsed() < lifetime).then(|| answer.clone())
    }

    /// An answer that was asked for after `stir`.
    pub(crate) fn put(&self, stir: Stir, answer: &T) {
        let kept = stir.map(|after| (answer.clone(), after, Instant::now()));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(300);

    /// An answer holds while nothing happens, and not for ever; and where things happen unnoticed, never.
    #[tokio::test(start_paused = true)]
    async fn an_answer_holds_while_nothing_happens() {
        let gauge = Gauge::default();
        assert_eq!(gauge.get(Some(1), LIFETIME), None);
        gauge.put(Some(1), &"few");
        assert_eq!(gauge.get(Some(1), LIFETIME), Some("few"));
        assert_eq!(gauge.get(Some(2), LIFETIME), None);
        assert_eq!(gauge.get(None, LIFETIME), None);
        tokio::time::advance(LIFETIME).await;
        assert_eq!(gauge.get(Some(1), LIFETIME), None);
        gauge.put(None, &"few");
        assert_eq!(gauge.get(Some(1), LIFETIME), None);
    }
}
