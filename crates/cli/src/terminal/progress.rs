//! A progress bar on standard error.

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

/// The shortest time between two drawings.
const REDRAW: Duration = Duration::from_millis(100);
/// The width of the bar.
const BAR: u64 = 24;

/// The progress of a long operation. Invisible unless standard error is a terminal. Dropping it removes it.
pub struct Progress {
    doing: &'static str,
    total: Option<u64>,
    began: Instant,
    drawn: Option<Instant>,
    is_visible: bool,
}

impl Progress {
    pub(super) fn new(doing: &'static str, total: Option<u64>) -> Progress {
        let total = total.filter(|total| *total > 0);
        Progress { doing, total, began: Instant::now(), drawn: None, is_visible: io::stderr().is_terminal() }
    }

    /// Shows that so many are done.
    pub fn set(&mut self, done: u64) {
        if !self.is_visible || self.drawn.is_some_and(|drawn| drawn.elapsed() < REDRAW) {
            return;
        }
        self.drawn = Some(Instant::now());
        let text = render(self.doing, done, self.total, self.began.elapsed());
        let mut err = io::stderr().lock();
        let _ = write!(err, "\r{text}\x1b[K").and_then(|()| err.flush());
    }

    /// Removes it, so that something else can be printed.
    pub fn clear(&mut self) {
        if self.drawn.take().is_some() {
            let mut err = io::stderr().lock();
            let _ = write!(err, "\r\x1b[K").and_then(|()| err.flush());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn render(doing: &str, done: u64, total: Option<u64>, elapsed: Duration) -> String {
    let rate = done as f64 / elapsed.as_secs_f64().max(0.001);
    let Some(total) = total else { return format!("{doing} {done}  {rate:.0}/s") };
    let done = done.min(total);
    let filled = done * BAR / total;
    let bar: String = (0..BAR).map(|at| if at < filled { '█' } else { '░' }).collect();
    format!("{doing} {bar} {done} of {total}  {rate:.0}/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With and without a total; more than the total does not overflow the bar.
    #[test]
    fn a_bar_fills_with_what_is_done() {
        let second = Duration::from_secs(1);
        assert_eq!(render("pushing", 500, None, second), "pushing 500  500/s");
        let half = format!("pushing {}{} 50 of 100  50/s", "█".repeat(12), "░".repeat(12));
        assert_eq!(render("pushing", 50, Some(100), second), half);
        assert!(render("pushing", 500, Some(100), second).contains(&"█".repeat(24)));
    }
}
