//! Rate limit for repeated log lines.
//!
//! A failure that affects every request must be logged without filling the log. [`LogLimit`] allows one line per
//! interval and counts the lines it suppressed.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Allows one log line per interval.
#[derive(Debug)]
pub struct LogLimit {
    every: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    last: Option<Instant>,
    left_out: u64,
}

impl LogLimit {
    /// One line per `every`.
    pub const fn new(every: Duration) -> LogLimit {
        LogLimit { every, state: Mutex::new(State { last: None, left_out: 0 }) }
    }

    /// `Some` if the line may be logged, with the number of lines suppressed since the last one.
    pub fn permit(&self) -> Option<u64> {
        self.permit_at(Instant::now())
    }

    fn permit_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.last.is_some_and(|last| now.saturating_duration_since(last) < self.every) {
            state.left_out += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One line per interval is permitted and carries the number of suppressed ones. Time is an argument.
    #[test]
    fn one_line_per_interval_passes_and_counts_the_others() {
        let limit = LogLimit::new(Duration::from_secs(10));
        let start = Instant::now();
        let at = |second: u64| limit.permit_at(start + Duration::from_secs(second));
        assert_eq!([at(0), at(1), at(9), at(10), at(11), at(30)], [Some(0), None, None, Some(2), None, Some(1)]);
    }
}
