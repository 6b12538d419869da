//! What the server is short of, and since when.
//!
//! A full disk, too little memory, too many connections, a database that became read-only: statements fail, and fail
//! again until an operator has done something. Trying again for long only makes callers wait. So a retry loop asks
//! [`Shortage::patience`] for how long, and [`is_lasting`] whether that time is over already for all callers. The
//! health check asks [`is_over`].
//!
//! The memory is one per process, not per pool, because an error is classified where it occurs, and does not say from
//! which pool it came. It ends with the first write that succeeds. A process that writes nothing detects the end by a
//! small write of its own. It makes one only while a shortage lasts and the health check is called.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::{Database, Error, LogLimit, Result, within};

/// For how long after the last failure one attempt is enough: a few times what a client waits before it tries again.
const LASTS: Duration = Duration::from_secs(60);
/// How often a small write is tried, however often it is asked for: it costs some rows of the server's catalog.
const TRIED_EVERY: Duration = Duration::from_secs(5);
/// A write that needs new pages on disk, even if existing tables have free space: 30 pages in a table that is dropped
/// with its transaction.
const TRY: &str =
    "/* write_try */ create temporary table reveille_try on commit drop as select generate_series(1, 7500) as filler";
/// Where that table lies: with the others, wherever temporary ones usually do.
const TRY_THERE: &str =
    "/* write_try_there */ select set_config('temp_tablespaces', current_setting('default_tablespace'), true)";
/// How often each shortage is logged.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// What a server is short of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shortage {
    /// 53100: no space left for a table, an index or the write-ahead log.
    DiskFull,
    /// 53200: no memory, or no room in the lock table.
    Memory,
    /// 53300: no free connection.
    Connections,
    /// 53000, 53400 and others of that class.
    Resources,
    /// 58000 and 58030: the operating system fails reads or writes.
    InputOutput,
    /// 25006: the server is a standby, or was made read-only.
    ReadOnly,
}

/// Every shortage, with how often it was met.
static COUNTS: [(Shortage, AtomicU64, LogLimit); 6] = [
    (Shortage::DiskFull, AtomicU64::new(0), LogLimit::new(LOG_EVERY)),
    (Shortage::Memory, AtomicU64::new(0), LogLimit::new(LOG_EVERY)),
    (Shortage::Connections, AtomicU64::new(0), LogLimit::new(LOG_EVERY)),
    (Shortage::Resources, AtomicU64::new(0), LogLimit::new(LOG_EVERY)),
    (Shortage::InputOutput, AtomicU64::new(0), LogLimit::new(LOG_EVERY)),
    (Shortage::ReadOnly, AtomicU64::new(0), LogLimit::new(LOG_EVERY)),
];

static RUN: Mutex<Option<Run>> = Mutex::new(None);
/// Whether there is a run: read at every write, without a lock.
static IS_SHORT: AtomicBool = AtomicBool::new(false);

/// Failures without a write that succeeded in between.
#[derive(Clone, Copy, Debug)]
struct Run {
    of: Shortage,
    since: Instant,
    last: Instant,
    /// When a small write was last tried.
    tried: Option<Instant>,
}

impl Run {
    /// The run after one more failure.
    fn after(run: Option<Run>, of: Shortage, now: Instant) -> Run {
        let since = run.filter(|run| run.is_recent(now)).map_or(now, |run| run.since);
        Run { of, since, last: now, tried: run.and_then(|run| run.tried) }
    }

    /// Whether it is time to try a small write.
    fn is_to_be_tried(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.tried.unwrap_or(self.since)) >= TRIED_EVERY
    }

    fn is_recent(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) < LASTS
    }

    fn is_lasting(&self, now: Instant) -> bool {
        self.is_recent(now) && now.saturating_duration_since(self.since) >= self.of.patience()
    }
}

impl Shortage {
    /// What a SQLSTATE says the server is short of. `None`: of nothing.
    pub fn of(code: &str) -> Option<Shortage> {
        match code {
            "53100" => Some(Shortage::DiskFull),
            "53200" => Some(Shortage::Memory),
            "53300" => Some(Shortage::Connections),
            "58000" | "58030" => Some(Shortage::InputOutput),
            "25006" => Some(Shortage::ReadOnly),
            _ if code.starts_with("53") => Some(Shortage::Resources),
            _ => None,
        }
    }

    /// A word for metrics.
    pub fn name(self) -> &'static str {
        match self {
            Shortage::DiskFull => "disk_full",
            Shortage::Memory => "out_of_memory",
            Shortage::Connections => "too_many_connections",
            Shortage::Resources => "resources",
            Shortage::InputOutput => "io_error",
            Shortage::ReadOnly => "read_only",
        }
    }

    /// What is wrong and what helps, for operators. It holds no text of the server.
    pub fn reason(self) -> &'static str {
        match self {
            Shortage::DiskFull => "the database's disk is full: free some space",
            Shortage::Memory => "the database server is out of memory, or of room for locks",
            Shortage::Connections => {
                "the database server has too many connections: raise its max_connections, or close some"
            }
            Shortage::Resources => "the database server has reached a limit of its own; its log says which",
            Shortage::InputOutput => "the database server cannot read or write its files; its log says why",
            Shortage::ReadOnly => "the database is read-only",
        }
    }

    /// The message for clients. It contains the word "connection", because existing consumers retry on it and end
    /// without it.
    pub fn client_message(self) -> &'static str {
        match self {
            Shortage::DiskFull => "no connection to a database that can write: its disk is full; try again later",
            Shortage::Memory => "no connection to a database with enough memory; try again later",
            Shortage::Connections => "the database has no free connection; try again later",
            Shortage::Resources => "no connection to a database with enough resources; try again later",
            Shortage::InputOutput => "no connection to a database that can read and write its files; try again later",
            Shortage::ReadOnly => "no connection to a database that can write: it is read-only; try again later",
        }
    }

    /// How long retrying is useful. Memory and connections become free within seconds, and a failover finds the new
    /// primary; a full disk needs an operator.
    pub fn patience(self) -> Duration {
        match self {
            Shortage::DiskFull | Shortage::InputOutput | Shortage::Resources => Duration::from_secs(2),
            Shortage::Memory | Shortage::Connections => Duration::from_secs(5),
            Shortage::ReadOnly => Duration::from_secs(10),
        }
    }

    fn count(self) -> Option<&'static (Shortage, AtomicU64, LogLimit)> {
        COUNTS.iter().find(|(shortage, ..)| *shortage == self)
    }
}

impl Error {
    /// What the server is short of. `None`: it failed for another reason.
    pub fn shortage(&self) -> Option<Shortage> {
        match self {
            // Stored, because callers that get the same failure later have no SQLSTATE.
            Error::Unreachable { shortage, .. } => *shortage,
            error => error.sqlstate().and_then(Shortage::of),
        }
    }
}

/// Reports a failure, if the server is short of something.
pub(crate) fn report(error: &Error) {
    if let Some(shortage) = error.shortage() {
        met(shortage);
    }
}

fn met(shortage: Shortage) {
    let now = Instant::now();
    {
        let mut run = run();
        *run = Some(Run::after(*run, shortage, now));
        IS_SHORT.store(true, Ordering::Release);
    }
    let Some((_, count, log)) = shortage.count() else { return };
    count.fetch_add(1, Ordering::Relaxed);
    if let Some(left_out) = log.permit() {
        tracing::warn!(left_out, "{}; until then requests are answered with 503", shortage.reason());
    }
}

/// Reports that a write was committed: the server is short of nothing that writes need.
pub fn write_succeeded() {
    if IS_SHORT.load(Ordering::Acquire) && run().take().is_some() {
        IS_SHORT.store(false, Ordering::Release);
        tracing::info!("the database accepts writes again");
    }
}

/// What the server is short of, as far as the last write tells.
pub fn current() -> Option<Shortage> {
    run().map(|run| run.of)
}

/// Whether the server is short of nothing, as far as it is known. If it was, and nothing else has been written since, a
/// small write is tried now and then, for `limit` at most. Where the role must not make temporary tables, a shortage is
/// taken to be over a minute after the last failure.
///
/// # Cancel safety
/// Dropping it leaves nothing behind.
pub async fn is_over(db: &Database, limit: Duration) -> bool {
    {
        let (mut run, now) = (run(), Instant::now());
        match run.as_mut() {
            None => return true,
            Some(run) if !run.is_to_be_tried(now) => return false,
            Some(run) => run.tried = Some(now),
        }
    }
    match try_to_write(db, limit).await {
        Ok(()) => write_succeeded(),
        Err(error) if error.is_transient() => {}
        Err(error) => {
            tracing::debug!(%error, "whether the database accepts writes cannot be tried");
            let mut run = run();
            if run.take_if(|run| !run.is_recent(Instant::now())).is_some() {
                IS_SHORT.store(false, Ordering::Release);
            }
        }
    }
    current().is_none()
}

async fn try_to_write(db: &Database, limit: Duration) -> Result<()> {
    // No statement has been sent yet, so the result is not ambiguous.
    let transaction = tokio::time::timeout(limit, db.begin()).await;
    let mut transaction = transaction.unwrap_or(Err(Error::Exhausted))?;
    within(limit, async {
        sqlx::query(TRY_THERE).execute(&mut *transaction).await?;
        sqlx::query(TRY).execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    })
    .await
}

/// Whether the server has been short of something for longer than it is worth waiting: then one attempt is enough.
pub fn is_lasting() -> bool {
    IS_SHORT.load(Ordering::Acquire) && run().is_some_and(|run| run.is_lasting(Instant::now()))
}

/// How often each shortage was met since the start of the process.
pub fn counts() -> impl Iterator<Item = (Shortage, u64)> {
    COUNTS.iter().map(|(shortage, count, _)| (*shortage, count.load(Ordering::Relaxed)))
}

fn run() -> MutexGuard<'static, Option<Run>> {
    RUN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlstate::{Kind, TABLE, classify};

    /// A run begins with its first failure, lasts when its patience is over and for a minute after its last failure,
    /// and is tried now and then. Time is an argument.
    #[tokio::test(start_paused = true)]
    async fn a_run_of_failures_has_a_beginning_and_an_end() {
        let start = Instant::now();
        let at = |second: u64| start + Duration::from_secs(second);
        let run = Run::after(None, Shortage::DiskFull, at(0));
        assert!(run.is_recent(at(1)) && !run.is_lasting(at(1)) && run.is_lasting(at(2)));
        assert!(!run.is_to_be_tried(at(4)) && run.is_to_be_tried(at(5)));
        let run = Run { tried: Some(at(5)), ..run };
        let run = Run::after(Some(run), Shortage::DiskFull, at(50));
        assert!(run.is_lasting(at(109)) && !run.is_lasting(at(110)) && !run.is_recent(at(110)));
        assert!(run.is_to_be_tried(at(10)) && !run.is_to_be_tried(at(9)));
        let new = Run::after(Some(run), Shortage::Memory, at(200));
        assert_eq!((new.since, new.of), (at(200), Shortage::Memory));
    }

    /// Every shortage passes one day, so its code must not be permanent; every code of the class is one; each is
    /// counted.
    #[test]
    fn shortages_are_never_permanent() {
        for row in TABLE.iter().filter(|row| Shortage::of(row.code).is_some()) {
            assert_eq!(row.kind, Kind::Transient, "{row:?}");
        }
        assert_eq!(Shortage::of("53999"), Some(Shortage::Resources));
        assert_eq!((Shortage::of("40001"), Shortage::of("58P01")), (None, None));
        for code in ["53100", "53200", "53300", "53400", "58030", "25006"] {
            let shortage = Shortage::of(code).expect(code);
            assert!(shortage.count().is_some() && classify(code) == Kind::Transient);
            assert!(shortage.client_message().contains("connection"), "{code}");
        }
    }

    /// The process remembers a failure until a write succeeds, however long that takes. Time is tokio's, and moved by
    /// an hour.
    #[tokio::test(start_paused = true)]
    async fn a_write_that_succeeds_ends_the_shortage() {
        assert_eq!(current(), None);
        met(Shortage::DiskFull);
        assert_eq!((current(), is_lasting()), (Some(Shortage::DiskFull), false));
        assert!(counts().any(|counted| counted == (Shortage::DiskFull, 1)));
        tokio::time::advance(Duration::from_secs(3_600)).await;
        assert_eq!((current(), is_lasting()), (Some(Shortage::DiskFull), false));
        write_succeeded();
        assert_eq!(current(), None);
    }
}
