//! Timestamps of events, recorded by the orchestrations and activities themselves.
//!
//! The client of duroxide sees a completion only when it next asks, up to 100 ms later. What is measured more finely
//! than that is measured where it happens.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// The notes of one process, by instance. The clock is the wall's, because other processes on the machine read it too.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timestamps(Arc<Mutex<HashMap<String, Vec<SystemTime>>>>);

impl Timestamps {
    /// Notes that something happens to an instance now.
    pub(crate) fn note(&self, instance: &str) {
        let now = SystemTime::now();
        let mut timestamps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        timestamps.entry(instance.to_owned()).or_default().push(now);
    }

    /// Takes the notes about an instance, oldest first.
    pub(crate) fn take(&self, instance: &str) -> Vec<SystemTime> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(instance).unwrap_or_default()
    }
}

/// A timestamp as it is written into results of activities.
pub(crate) fn nanos(time: SystemTime) -> u128 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}

/// Milliseconds from one timestamp to another; negative if the other was first.
pub(crate) fn millis_between(from: SystemTime, to: SystemTime) -> f64 {
    let ms = |duration: Duration| duration.as_secs_f64() * 1_000.0;
    to.duration_since(from).map_or_else(|early| -ms(early.duration()), ms)
}
