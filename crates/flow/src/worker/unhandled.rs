//! Step names that a worker does not claim for a while, because it has no handler for them.
//!
//! Another template of the namespace may have a step of the same name that the worker can handle. So the worker tries
//! the name again, after a longer pause each time.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// The first and the longest pause.
const FIRST: Duration = Duration::from_secs(1);
const LAST: Duration = Duration::from_secs(600);

/// Step names that are not claimed for a while.
#[derive(Debug, Default)]
pub(super) struct UnhandledSteps(HashMap<String, Pause>);

#[derive(Debug)]
struct Pause {
    until: Instant,
    pause: Duration,
}

impl UnhandledSteps {
    /// Notes that an unhandled step was claimed. Returns how long its name is skipped; `None` if it is skipped already.
    pub(super) fn claimed(&mut self, name: &str, now: Instant) -> Option<Duration> {
        let pause = match self.0.get(name) {
            Some(step) if step.until > now => return None,
            Some(step) => (step.pause * 2).min(LAST),
            None => FIRST,
        };
        self.0.insert(name.to_owned(), Pause { until: now + pause, pause });
        Some(pause)
    }

    /// The names to skip now.
    pub(super) fn skipped(&self, now: Instant) -> Vec<String> {
        self.0.iter().filter(|(_, step)| step.until > now).map(|(name, _)| name.clone()).collect()
    }

    /// When the next name is claimed again.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        self.0.values().map(|step| step.until).filter(|until| *until > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each pause is twice as long, up to the limit; claims within a pause do not extend it.
    #[test]
    fn unhandled_steps_are_skipped_longer_each_time() {
        let mut unhandled = UnhandledSteps::default();
        let mut now = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..12 {
            let pause = unhandled.claimed("a", now).expect("the name is not skipped");
            assert_eq!((unhandled.claimed("a", now), unhandled.skipped(now)), (None, vec!["a".to_owned()]));
            assert_eq!(unhandled.next(now), Some(now + pause));
            pauses.push(pause.as_secs());
            now += pause;
            assert_eq!((unhandled.skipped(now), unhandled.next(now)), (vec![], None));
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]);
    }
}
