//! Timers with one due time per key.
//!
//! One task per consumer sleeps until the earliest of them, however many groups there are. Setting a timer replaces its
//! due time, so a key is never due at a time it no longer has.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use tokio::time::Instant;

/// The earliest of optional times.
pub(crate) fn earliest<T: Ord>(times: impl IntoIterator<Item = Option<T>>) -> Option<T> {
    times.into_iter().flatten().min()
}

/// A set of due times, one per key.
#[derive(Debug)]
pub(crate) struct Timers<K> {
    by_time: BTreeSet<(Instant, K)>,
    by_key: HashMap<K, Instant>,
}

impl<K: Copy + Ord + Hash> Timers<K> {
    /// No timers.
    pub(crate) fn new() -> Self {
        Timers { by_time: BTreeSet::new(), by_key: HashMap::new() }
    }

    /// Makes `key` due at `at` instead of its time before; `None` removes it.
    pub(crate) fn set(&mut self, key: K, at: Option<Instant>) {
        let was = match at {
            Some(at) => self.by_key.insert(key, at),
            None => self.by_key.remove(&key),
        };
        if was == at {
            return;
        }
        if let Some(was) = was {
            self.by_time.remove(&(was, key));
        }
        if let Some(at) = at {
            self.by_time.insert((at, key));
        }
    }

    /// Whether `key` has a due time.
    pub(crate) fn has(&self, key: K) -> bool {
        self.by_key.contains_key(&key)
    }

    /// The earliest due time.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Removes and returns a key that is due at `now`, the earliest first.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<K> {
        let (at, key) = *self.by_time.first()?;
        if at > now {
            return None;
        }
        self.set(key, None);
        Some(key)
    }
}

impl<K: Copy + Ord + Hash> Default for Timers<K> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Compared with a plain map: after any sequence of settings, exactly the keys whose last time has come are
        /// popped, in the order of their times, each once.
        #[test]
        fn pops_what_is_due_in_order(
            settings in prop::collection::vec((0u8..20, prop::option::of(0u64..1_000)), 0..100),
            until in 0u64..1_000,
        ) {
            let t0 = Instant::now();
            let at = |ms: u64| t0 + Duration::from_millis(ms);
            let mut timers = Timers::new();
            let mut model = HashMap::new();
            for (key, ms) in settings {
                timers.set(key, ms.map(at));
                match ms {
                    Some(ms) => { model.insert(key, ms); }
                    None => { model.remove(&key); }
                }
            }
            prop_assert_eq!(timers.next(), model.values().min().map(|ms| at(*ms)));
            let mut last = 0;
            while let Some(key) = timers.pop_due(at(until)) {
                let ms = model.remove(&key).expect("popped once, and only what was set");
                prop_assert!(ms <= until && ms >= last);
                last = ms;
            }
            prop_assert!(model.values().all(|ms| *ms > until));
            prop_assert_eq!(timers.next(), model.values().min().map(|ms| at(*ms)));
        }
    }
}
