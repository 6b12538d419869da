//! Which idle connections have to be tested before use.
//!
//! A pooled connection is not pinged before use: that would cost a round trip every time for a rare fault. The danger
//! is a restarted server: every idle connection is dead, and each would cost its next user a failed statement. So the
//! time of the first failure is recorded. A connection that became idle before that time is pinged once before its next
//! use; one that became idle later has been pinged since, because sqlx pings on every return. That ping has no timeout,
//! so for a while after a report it is preceded by one that has.
//!
//! Connections whose server has become read-only, or whose prepared statements a migration has invalidated, answer
//! pings; those opened before such a report are replaced.
//!
//! Reports are kept per process, not per pool, because an error is classified where its pool is unknown. They are only
//! hints: a report about another server costs one ping or one reconnection.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Reports of outdated connections closer together than this are one report, so that a program that keeps writing in a
/// read-only transaction by mistake does not reconnect at every call.
const OUTDATED_AT_MOST_EVERY: Duration = Duration::from_secs(1);

/// How long after a report returned connections are tested. Connections in use at the time of the report are returned
/// within their callers' own timeouts, which are seconds.
const TROUBLE_LASTS: Duration = Duration::from_secs(60);

static START: LazyLock<Instant> = LazyLock::new(Instant::now);
static INTERRUPTED: LastReport = LastReport::never();
static OUTDATED: LastReport = LastReport::never();

static REPORTED: Notify = Notify::const_new();

/// Reports that a connection was found dead, or that no server answered.
pub(crate) fn interrupted() {
    INTERRUPTED.report(now(), Duration::ZERO);
    REPORTED.notify_waiters();
}

/// Reports that acquiring a connection timed out. The cause may be load, so it triggers no pings, which would add to
/// it.
pub(crate) fn exhausted() {
    REPORTED.notify_waiters();
}

/// Reports a connection that works but whose server has become read-only or whose statements are outdated.
pub(crate) fn outdated() {
    OUTDATED.report(now(), OUTDATED_AT_MOST_EVERY);
    REPORTED.notify_waiters();
}

/// The next report of any kind, including those made between this call and the await.
pub(super) fn next_report() -> Notified<'static> {
    REPORTED.notified()
}

/// Whether a connection that has been idle for `idle_for` should be pinged before it is used.
pub(super) fn should_ping(idle_for: Duration) -> bool {
    INTERRUPTED.is_within(now(), idle_for)
}

/// Whether a dead connection was reported within [`TROUBLE_LASTS`].
pub(super) fn is_trouble() -> bool {
    INTERRUPTED.is_within(now(), TROUBLE_LASTS)
}

/// Whether a connection opened `age` ago should be replaced.
pub(super) fn should_replace(age: Duration) -> bool {
    OUTDATED.is_within(now(), age)
}

/// Time since the first call, plus one microsecond, because zero means "never" below.
fn now() -> Duration {
    START.elapsed() + Duration::from_micros(1)
}

/// Time of the last report in microseconds; zero means none.
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

    /// Only connections that became idle before the report are suspect; without a report none is.
    #[test]
    fn only_connections_from_before_the_report_are_suspect() {
        let report = LastReport::never();
        assert!(!report.is_within(s(100), s(100)));
        report.report(s(50), s(0));
        assert!(report.is_within(s(60), s(11)), "idle since 49");
        assert!(!report.is_within(s(60), s(9)), "idle since 51");
    }

    /// A burst of reports counts once, so that not every call reconnects.
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
