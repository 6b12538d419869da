//! What a product says about writing: one statement for many writes, and what it rings.

use std::future::Future;

use pg::Sql;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};
use uuid::Uuid;

use crate::notify::channel::WakeUp;

/// A kind of write: many of them travel in one statement, one *flight*.
///
/// Whatever is submitted while a flight is in the air goes out together with the next; on an idle system a write goes
/// out at once and alone. The statement must
///
/// - take its members in the order given, which is the order of their keys, and lock rows in that order, so that two
///   flights never wait for each other in a circle;
/// - add up members that concern the same row, so that it writes each row once;
/// - answer `null` for a member whose row is locked by somebody else (`SKIP LOCKED`) instead of waiting, unless it is
///   [`patient`](WriteBatch::patient): such members are sent again alone;
/// - end with `{schema}.finish_batch(…)`, which keeps the outcomes and rings.
pub trait BatchedWrite: Send + Sync + 'static {
    /// One write.
    type Write: Send + Sync + 'static;
    /// What it locks.
    type Key: Ord;
    /// What became of it.
    type Outcome: Send + 'static;

    /// Whether its outcomes are kept until they are known to have arrived, at the price of one small row per flight. Say
    /// `true` for anything that must not happen twice.
    const RECORDS_OUTCOMES: bool;

    /// What the member locks; members are sorted by it.
    fn key(&self, write: &Self::Write) -> Self::Key;

    /// About how many bytes the member adds to the statement; a flight takes no more than its `max_bytes` together.
    fn bytes(&self, _member: &Self::Write) -> usize {
        0
    }

    /// What the member makes visible: all it may (`outcome` is `None`: not known yet, or never), or all it did.
    fn wake_ups(&self, write: &Self::Write, outcome: Option<&Self::Outcome>) -> Vec<WakeUp>;

    /// Sends the statement: [`WriteBatch::query`], its own arguments bound after, [`BatchResult::of`].
    fn send(
        &self,
        conn: &mut PgConnection,
        batch: &WriteBatch<'_, Self::Write>,
    ) -> impl Future<Output = pg::Result<BatchResult>> + Send;

    /// Reads an outcome as the statement wrote it.
    fn outcome(&self, write: &Self::Write, text: &str) -> Self::Outcome;
}

/// Who travels in a flight, and how.
pub struct WriteBatch<'a, M> {
    /// The members, in order of their keys.
    pub writes: Vec<&'a M>,
    /// Whether to wait for row locks: a member that travels alone does.
    pub patient: bool,
    pub(crate) id: Option<Uuid>,
    pub(crate) channels: &'a [String],
    pub(crate) payloads: &'a [String],
}

impl<M> WriteBatch<'_, M> {
    /// The flight's statement with its first four arguments bound: `$1` the flight's id uuid, `$2` channels text[] and `$3`
    /// payloads text[] for `{schema}.finish_batch`, `$4` patient boolean. It answers one row: outcomes text[], backend integer.
    pub fn query<'q>(&'q self, sql: &Sql) -> Query<'q, Postgres, PgArguments> {
        sqlx::query(sql).bind(self.id).bind(self.channels).bind(self.payloads).bind(self.patient)
    }
}

/// What a flight's statement answered.
#[derive(Debug)]
pub struct BatchResult {
    /// One per member, in order; `None` for a member whose row was locked.
    pub(crate) outcomes: Vec<Option<String>>,
    pub(crate) backend: Option<u32>,
}

impl BatchResult {
    /// An answer put together from several: one outcome per member in order, `None` for one whose row was locked, and the backend that rang, if
    /// any did.
    pub fn new(outcomes: Vec<Option<String>>, backend: Option<i32>) -> BatchResult {
        BatchResult { outcomes, backend: backend.and_then(|pid| u32::try_from(pid).ok()) }
    }

    /// Reads the answer of a statement made by [`WriteBatch::query`].
    ///
    /// # Errors
    /// If its columns are not `outcomes text[], backend integer`.
    pub fn of(row: &PgRow) -> pg::Result<BatchResult> {
        let outcomes = row.try_get(0)?;
        let backend: i32 = row.try_get(1)?;
        Ok(BatchResult { outcomes, backend: u32::try_from(backend).ok() })
    }
}
