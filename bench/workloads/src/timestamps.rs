//! Timestamps of events, recorded by the orchestrations and activities themselves.
//!
//! The client of duroxide sees a completion only at its next poll, up to 100 ms later. Shorter times are measured in
//! the functions themselves.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// The timestamps of one process, by instance. Of the system clock, because other processes on the machine use it too.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timestamps(Arc<Mutex<HashMap<String, Vec<SystemTime>>>>);

impl Timestamps {
    /// Adds the present time to an instance.
    pub(crate) fn note(&self, instance: &str) {
        let now = SystemTime::now();
        let mut timestamps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        timestamps.entry(instance.to_owned()).or_default().push(now);
    }

    /// Removes and returns the timestamps of an instance, oldest first.
    pub(crate) fn take(&self, instance: &str) -> Vec<SystemTime> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(instance).unwrap_or_default()
    }
}

/// A timestamp as nanoseconds since the epoch: its form in the results of activities.
pub(crate) fn nanos(time: SystemTime) -> u128 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}

/// Milliseconds from one timestamp to another; negative if the other is earlier.
pub(crate) fn millis_between(from: SystemTime, to: SystemTime) -> f64 {
    let ms = |duration: Duration| duration.as_secs_f64() * 1_000.0;
    to.duration_since(from).map_or_else(|early| -ms(early.duration()), ms)
}
