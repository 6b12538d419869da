//! What the process has learnt about connections it holds but is not using.
//!
//! There is no ping before a pooled connection is used: it would cost a round trip every time for something that is almost
//! never wrong. The danger is a restarted server: every idle connection is dead, and each would cost its next user a
//! failed statement. So the first failure is remembered, as a time. A pooled connection that was put away before that time is
//! pinged once before it is used again; one put away later has been pinged since, because sqlx does so on every return.
//! That ping has no limit, so for a while after a report there is one before it that has.
//!
//! The same goes for connections whose server has become read-only, or whose prepared statements a migration has outdated:
//! they answer pings, so those opened before such a report are replaced.
//!
//! The memory is one per process, not per pool, because an error is sorted where it is met and does not know its pool. It is
//! a hint and decides nothing: the price of a report about somebody else's server is a ping, or a reconnection, once.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Reports of outdated connections closer together than this are one report, so that a program that keeps writing in a
/// read-only transaction by mistake does not reconnect at every call.
const OUTDATED_AT_MOST_EVERY: Duration = Duration::from_secs(1);

/// For how long after a report connections that come back are tested. Those that were in use at the time of the report come
/// back within their caller's own limits, which are seconds.
const TROUBLE_LASTS: Duration = Duration::from_secs(60);

static START: LazyLock<Instant> = LazyLock::new(Instant::now);
static INTERRUPTED: LastReport = LastReport::never();
static OUTDATED: LastReport = LastReport::never();

static NEWS: Notify = Notify::const_new();

/// Reports that a connection was found dead, or that no server answered.
pub(crate) fn interrupted() {
    INTERRUPTED.report(now(), Duration::ZERO);
    NEWS.notify_waiters();
}

/// Reports that no connection could be had in time. It may be load, so it makes nobody ping, which would add to it.
pub(crate) fn exhausted() {
    NEWS.notify_waiters();
}

/// Reports that a connection works but leads to a server, or to statements, that are of no more use.
pub(crate) fn outdated() {
    OUTDATED.report(now(), OUTDATED_AT_MOST_EVERY);
    NEWS.notify_waiters();
}

/// The next report of any kind; those made since this was called count.
pub(super) fn news() -> Notified<'static> {
    NEWS.notified()
}

/// Whether a connection that has been idle for `idle_for` should be pinged before it is used.
pub(super) fn should_ping(idle_for: Duration) -> bool {
    INTERRUPTED.is_within(now(), idle_for)
}

/// Whether there were reports of dead connections just now.
pub(super) fn is_trouble() -> bool {
    INTERRUPTED.is_within(now(), TROUBLE_LASTS)
}

/// Whether a connection opened `age` ago should be replaced.
pub(super) fn should_replace(age: Duration) -> bool {
    OUTDATED.is_within(now(), age)
}

/// Since the process first asked; plus one, because zero means "never" below.
fn now() -> Duration {
    START.elapsed() + Duration::from_micros(1)
}

/// The time of a report, in microseconds; zero means that there was none.
struct LastReport(AtomicU64);

impl LastReport {
    const fn never() -> LastReport {
        LastReport(AtomicU64::new(0))
    }

    fn report(&self, now: Duration, at_most_every: Duration) {
        let last = self.0.load(Ordering::Acquire);
        if last == 0 || micros(now).saturating_sub(last) >= micros(at_most_every) {
            self.0.fetch_max(micros(now), Ordering::AcqRel);
        }
    }

    /// Whether the last report came within the last `ago`.
    fn is_within(&self, now: Duration, ago: Duration) -> bool {
        let last = self.0.load(Ordering::Acquire);
        last != 0 && last >= micros(now.saturating_sub(ago))
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Only what was put away before the report is suspect, and nothing is before there was one.
    #[test]
    fn only_connections_from_before_the_report_are_suspect() {
        let report = LastReport::never();
        assert!(!report.is_within(s(100), s(100)));
        report.report(s(50), s(0));
        assert!(report.is_within(s(60), s(11)), "put away at 49");
        assert!(!report.is_within(s(60), s(9)), "put away at 51");
    }

    /// A burst of reports counts once, so that it cannot make every call reconnect.
    #[test]
    fn reports_in_quick_succession_are_one() {
        let report = LastReport::never();
        report.report(s(50), s(10));
        report.report(s(55), s(10));
        assert!(!report.is_within(s(56), s(4)), "opened at 52, after the first report");
        report.report(s(60), s(10));
        assert!(report.is_within(s(61), s(4)), "opened at 57, before the second that counts");
    }
}
