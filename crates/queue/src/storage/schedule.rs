//! When a kind of housekeeping runs: at most once per interval, and only if there is a reason.
//!
//! There are two reasons: something has happened since the last run, so its result may be outdated; or the due time has
//! come that the last run returned. Without a reason a tick of the interval compares two numbers in memory. So an idle
//! server sends no statement, and messages that become due while it is idle are still removed in time.

use std::time::Duration;

use tokio::time::Instant;

/// The shortest interval: without a pause the loop would be busy.
const SHORTEST: Duration = Duration::from_millis(1);

/// One kind of housekeeping.
#[derive(Debug)]
pub(crate) struct Schedule {
    every: Duration,
    next: Instant,
    /// The activity at the last run; `None`: it has not run, or failed.
    seen: Option<u64>,
    /// The due time that the last run returned.
    due: Option<Instant>,
}

impl Schedule {
    /// The first run comes after half an interval or more, so that servers that were started together do not run at the
    /// same time.
    pub(crate) fn new(every: Duration, now: Instant) -> Schedule {
        let every = every.max(SHORTEST);
        Schedule { every, next: now + every.mul_f64(0.5 + fastrand::f64() / 2.0), seen: None, due: None }
    }

    /// When to check whether it [is wanted](Self::is_wanted).
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// Whether there is a reason to run.
    pub(crate) fn is_wanted(&self, activity: u64, now: Instant) -> bool {
        self.seen != Some(activity) || self.due.is_some_and(|due| due <= now)
    }

    /// There was no reason.
    pub(crate) fn skip(&mut self, now: Instant) {
        let tick = now + self.every;
        self.next = self.due.map_or(tick, |due| due.min(tick));
    }

    /// It has run: the activity at its beginning, and when the next message becomes due.
    pub(crate) fn end(&mut self, activity: u64, due: Option<Instant>, now: Instant) {
        (self.seen, self.due, self.next) = (Some(activity), due, now + self.every);
    }

    /// It has failed.
    pub(crate) fn fail(&mut self, now: Instant) {
        (self.seen, self.next) = (None, now + self.every);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(60);

    /// A run that has found nothing is repeated only when something has happened, or when its due time has come, and
    /// then at that time.
    #[test]
    fn it_runs_when_there_is_a_reason() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut round = Schedule::new(EVERY, start);
        assert!(round.next() >= at(30) && round.next() <= at(60));
        assert!(round.is_wanted(0, at(60)), "the first time");
        round.end(7, None, at(60));
        assert_eq!(round.next(), at(120));
        assert!(!round.is_wanted(7, at(120)), "nothing has happened");
        round.skip(at(120));
        assert_eq!(round.next(), at(180));
        assert!(round.is_wanted(8, at(180)), "something has happened");
        round.end(8, Some(at(250)), at(180));
        assert!(!round.is_wanted(8, at(240)));
        round.skip(at(240));
        assert_eq!(round.next(), at(250), "on time, not at the next tick");
        assert!(round.is_wanted(8, at(250)));
    }

    /// However much becomes due, two runs are an interval apart; after a failure there is another run.
    #[test]
    fn runs_are_an_interval_apart() {
        let start = Instant::now();
        let mut round = Schedule::new(EVERY, start);
        round.end(1, Some(start), start);
        assert_eq!(round.next(), start + EVERY);
        round.fail(start + EVERY);
        assert_eq!(round.next(), start + EVERY * 2);
        assert!(round.is_wanted(1, start + EVERY * 2));
    }
}
