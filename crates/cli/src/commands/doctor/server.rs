//! The server: version, writability, clock, statistics, free connections, notification queue.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sqlx::postgres::PgRow;

use super::{
    ask, column,
    finding::{Finding, Report},
    unanswered,
};
use crate::config;

/// The major versions that this program is tested with.
const SUPPORTED: std::ops::RangeInclusive<i32> = reveille_pg::OLDEST_SERVER.cast_signed()..=18;

/// `server_version_num` is the major version times this, plus the minor one.
const VERSION_SCALE: i32 = 10_000;

/// A larger difference of clocks makes logs hard to compare. Work does not depend on it.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(2);

/// Connections beside the pool: of the listener and of the notifier.
const CONNECTIONS_BESIDE_THE_POOL: i64 = 2;

/// Usage of the notification queue that is unusual, and dangerous: when it is full, commits that notify fail.
const QUEUE_UNUSUAL: f64 = 0.05;
const QUEUE_DANGEROUS: f64 = 0.5;

/// The fix for an old server.
pub(super) const UPGRADE: &str = "install PostgreSQL 18 and move the data with pg_upgrade, or with pg_dump and \
                                  pg_restore; a hosted database usually offers a major upgrade";

/// The fix for a standby.
pub(super) const NAME_THE_PRIMARY: &str =
    "set the URL to the primary, or to all hosts, separated by commas: reveille follows the primary";

const SQL: &str = "select current_setting('server_version_num')::int as version, \
     current_setting('server_version') as version_text, \
     pg_is_in_recovery() as standby, \
     current_setting('default_transaction_read_only') = 'on' as read_only, \
     extract(epoch from clock_timestamp())::float8 as clock, \
     exists (select from pg_extension where extname = 'pg_stat_statements') as statistics, \
     current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint as room, \
     (select count(*) from pg_stat_activity where backend_type = 'client backend') as used, \
     pg_notification_queue_usage()::float8 as queue";

/// Checks the server. `None` if it cannot be used at all.
pub(super) async fn examine(
    database: &reveille_pg::Database,
    settings: &config::Database,
    report: &mut Report,
) -> Option<()> {
    let before = SystemTime::now();
    let row = match ask(database, SQL).await {
        Ok(row) => row,
        Err(error) => return report.add(unanswered("server", &error)),
    };
    // The server read its clock within this time; the middle is the best estimate.
    let here = before + before.elapsed().unwrap_or_default() / 2;

    let text: String = column(&row, "version_text").unwrap_or_default();
    report.add(version(column(&row, "version").unwrap_or_default(), &text))?;
    let is = |name| column::<bool>(&row, name).unwrap_or(false);
    report.add(writable(is("standby"), is("read_only")))?;
    let clock: f64 = column(&row, "clock").unwrap_or_default();
    report.add(clocks(here.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(), clock));
    report.add(statistics(is("statistics")));
    report.add(room(&row, i64::from(settings.pool_size())));
    report.add(queue(column(&row, "queue").unwrap_or_default()));
    Some(())
}

/// Checks `server_version_num`; `text` is the version as the server writes it.
fn version(number: i32, text: &str) -> Finding {
    const WHAT: &str = "version";
    let major = number / VERSION_SCALE;
    if SUPPORTED.contains(&major) {
        Finding::ok(WHAT, format!("PostgreSQL {text}"))
    } else if major < *SUPPORTED.start() {
        Finding::fail(
            WHAT,
            format!(
                "the server is PostgreSQL {text}, which is too old: {} to {} are supported",
                SUPPORTED.start(),
                SUPPORTED.end()
            ),
            UPGRADE,
        )
    } else {
        Finding::warn(
            WHAT,
            format!("the server is PostgreSQL {text}, newer than what this version of reveille was tested with"),
            format!("install a newer reveille, or use PostgreSQL {}", SUPPORTED.end()),
        )
    }
}

fn writable(standby: bool, read_only: bool) -> Finding {
    const WHAT: &str = "writable";
    if standby {
        Finding::fail(WHAT, "the server is a standby: it is read-only", NAME_THE_PRIMARY)
    } else if read_only {
        Finding::fail(
            WHAT,
            "transactions are read-only by default",
            "set default_transaction_read_only to off where it is on (`\\drds` in psql, or postgresql.conf); some \
             hosts switch it on when the disk is full",
        )
    } else {
        Finding::ok(WHAT, "it is the primary")
    }
}

fn clocks(here: f64, there: f64) -> Finding {
    const WHAT: &str = "clock";
    let apart = (here - there).abs();
    if apart <= CLOCK_TOLERANCE.as_secs_f64() {
        return Finding::ok(WHAT, format!("{:.0} ms difference to the server", apart * 1000.0));
    }
    let direction = if here > there { "ahead of" } else { "behind" };
    Finding::warn(
        WHAT,
        format!("this machine's clock is {apart:.1} s {direction} the server's; work is not affected, log times are"),
        "switch on time synchronisation (NTP) on both machines",
    )
}

fn statistics(present: bool) -> Finding {
    const WHAT: &str = "statistics";
    if present {
        return Finding::ok(WHAT, "pg_stat_statements is installed");
    }
    Finding::warn(
        WHAT,
        "pg_stat_statements is not installed: the cost of statements is not recorded",
        "add it to shared_preload_libraries, restart the server, then run `create extension pg_stat_statements`",
    )
}

fn room(row: &PgRow, pool_size: i64) -> Finding {
    const WHAT: &str = "connections";
    let (Some(room), Some(used)) = (column::<i64>(row, "room"), column::<i64>(row, "used")) else {
        return Finding::ok(WHAT, "the server does not report its limit");
    };
    let needed = pool_size + CONNECTIONS_BESIDE_THE_POOL;
    let free = room - used;
    if free >= needed {
        return Finding::ok(WHAT, format!("{used} of {room} in use, and one process may need {needed}"));
    }
    Finding::warn(
        WHAT,
        format!("{used} of {room} in use: {free} are free, but one process may need {needed}"),
        "raise max_connections on the server, lower --pool-size, or put a pooler in between",
    )
}

fn queue(usage: f64) -> Finding {
    const WHAT: &str = "notification queue";
    let percent = format!("{:.0} % in use", usage * 100.0);
    let fix = "a program listens and does not read: find the oldest `idle in transaction` session that listens in \
               pg_stat_activity and end it with pg_terminate_backend";
    if usage < QUEUE_UNUSUAL {
        Finding::ok(WHAT, percent)
    } else if usage < QUEUE_DANGEROUS {
        Finding::warn(WHAT, percent, fix)
    } else {
        Finding::fail(WHAT, format!("{percent}; when it is full, commits fail"), fix)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::finding::Status, *};

    /// The check of versions, by a table of `server_version_num`, because servers older than 14 or newer than 18 are
    /// not installed here: both ends of the range, their neighbours, and the numbering of the 9 series.
    #[test]
    fn servers_outside_14_to_18_are_named_and_explained() {
        let table = [
            (90_624, "9.6.24", Status::Fail),
            (130_022, "13.22", Status::Fail),
            (140_000, "14.0", Status::Ok),
            (150_014, "15.14", Status::Ok),
            (180_001, "18.1", Status::Ok),
            (190_000, "19beta1", Status::Warn),
        ];
        for (number, text, expected) in table {
            let finding = version(number, text);
            assert_eq!(finding.status, expected, "{text}");
            let shown = finding.to_string();
            assert!(shown.contains(text), "{shown}");
            assert_eq!(shown.contains("pg_upgrade"), expected == Status::Fail, "{shown}");
        }
    }

    /// Findings of the notification queue, the clock and the standby, at and beside their thresholds.
    #[test]
    fn findings_change_at_their_thresholds() {
        assert_eq!(queue(0.0).status, Status::Ok);
        assert_eq!(queue(0.05).status, Status::Warn);
        assert_eq!(queue(0.5).status, Status::Fail);
        assert_eq!(clocks(100.0, 98.0).status, Status::Ok);
        assert_eq!(clocks(100.0, 102.1).status, Status::Warn);
        assert!(clocks(100.0, 110.0).to_string().contains("behind"));
        assert_eq!(writable(true, false).status, Status::Fail);
        assert_eq!(writable(false, true).status, Status::Fail);
        assert_eq!(writable(false, false).status, Status::Ok);
    }
}
