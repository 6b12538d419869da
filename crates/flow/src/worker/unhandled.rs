//! Steps that a worker has met and has no handler for: which it leaves alone, and for how long.
//!
//! A name alone does not tell: another template of the namespace may have a step of the same name that the worker can do. So it comes back to them, later each time.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// How long steps of a name are left alone, at first and at last.
const FIRST: Duration = Duration::from_secs(1);
const LAST: Duration = Duration::from_secs(600);

/// Names of steps that are left alone.
#[derive(Debug, Default)]
pub(super) struct Strangers(HashMap<String, Stranger>);

#[derive(Debug)]
struct Stranger {
    until: Instant,
    pause: Duration,
}

impl Strangers {
    /// A step that nobody here can do was claimed. Answers for how long its name is left alone; `None` if it was already.
    pub(super) fn met(&mut self, name: &str, now: Instant) -> Option<Duration> {
        let pause = match self.0.get(name) {
            Some(stranger) if stranger.until > now => return None,
            Some(stranger) => (stranger.pause * 2).min(LAST),
            None => FIRST,
        };
        self.0.insert(name.to_owned(), Stranger { until: now + pause, pause });
        Some(pause)
    }

    /// The names to be left alone now.
    pub(super) fn left_out(&self, now: Instant) -> Vec<String> {
        self.0.iter().filter(|(_, stranger)| stranger.until > now).map(|(name, _)| name.clone()).collect()
    }

    /// When the next of those is not left alone any more.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        self.0.values().map(|stranger| stranger.until).filter(|until| *until > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each time for twice as long, up to the limit; within that time it counts once.
    #[test]
    fn strangers_are_left_alone_longer_each_time() {
        let mut strangers = Strangers::default();
        let mut now = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..12 {
            let pause = strangers.met("a", now).expect("it is not left alone");
            assert_eq!((strangers.met("a", now), strangers.left_out(now)), (None, vec!["a".to_owned()]));
            assert_eq!(strangers.next(now), Some(now + pause));
            pauses.push(pause.as_secs());
            now += pause;
            assert_eq!((strangers.left_out(now), strangers.next(now)), (vec![], None));
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]);
    }
}
