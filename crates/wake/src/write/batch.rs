//! What a product defines about writing: one statement for many writes, and the wake-ups of each.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;
use reveille_pg::Sql;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};
use uuid::Uuid;

use crate::notify::channel::WakeUp;
use crate::wait::attached::{AttachedPoll, AttachedResult, BatchClaim, Claimed, Detachable};
use crate::wait::claim::{Claim, PollResult};
use crate::wait::consumer::Consumer;

/// A kind of write that is sent in batches: many writes in one statement and one transaction.
///
/// Writes submitted while a batch is being sent go out together with the next one; on an idle system a write is sent at
/// once and alone. The statement must
///
/// - process its writes in the order given, which is the order of their keys, and lock rows in that order, so that two
///   batches never deadlock;
/// - add up writes to the same row, so that it updates each row once;
/// - answer `null` for a write whose row is locked (`SKIP LOCKED`) instead of waiting, unless the batch is
///   [`patient`](WriteBatch::patient): such writes are sent again alone;
/// - end with `{schema}.finish_batch(…)`, which records the outcomes and notifies.
pub trait BatchedWrite: Send + Sync + 'static {
    /// One write.
    type Write: Send + Sync + 'static;
    /// The row that it locks.
    type Key: Ord;
    /// Its result.
    type Outcome: Send + 'static;

    /// Whether outcomes are recorded until this process has received them, for one small row per batch. `true` for
    /// every write that must not happen twice.
    const RECORDS_OUTCOMES: bool;

    /// The row that the write locks; writes are sorted by it.
    fn key(&self, write: &Self::Write) -> Self::Key;

    /// About how many bytes the write adds to the statement; a batch has `max_bytes` at most.
    fn bytes(&self, _write: &Self::Write) -> usize {
        0
    }

    /// The wake-ups of the write: all that are possible (`outcome` is `None`: not known yet, or never), or those of its
    /// outcome. Must have no effects: those of an outcome belong into [`committed`](Self::committed).
    fn wake_ups(&self, write: &Self::Write, outcome: Option<&Self::Outcome>) -> Vec<WakeUp>;

    /// Sends the statement: [`WriteBatch::query`], then its own arguments, then [`WriteBatch::result`].
    fn send(
        &self,
        conn: &mut PgConnection,
        batch: &WriteBatch<'_, Self::Write>,
    ) -> impl Future<Output = reveille_pg::Result<BatchResult<Self::Outcome>>> + Send;

    /// Reads an outcome as the statement recorded it; for statements that return outcomes as text. `None` means that
    /// the text is no outcome of this kind of write: its caller gets [`Error::Unknown`](crate::Error::Unknown).
    fn decode(&self, _write: &Self::Write, _text: &str) -> Option<Self::Outcome> {
        None
    }

    /// The write has committed with this outcome. Called once, before any waiter is woken: for effects in memory.
    fn committed(&self, _write: &Self::Write, _outcome: &Self::Outcome) {}
}

/// The writes of one statement.
pub struct WriteBatch<'a, W> {
    /// The writes, in order of their keys.
    pub writes: Vec<&'a W>,
    /// Whether to wait for row locks, as a write that is sent alone does.
    pub patient: bool,
    pub(crate) id: Option<Uuid>,
    pub(crate) channels: &'a [String],
    pub(crate) payloads: &'a [String],
    /// The wake-ups that are possible; `None`: the statement must not claim.
    pub(crate) claims_for: Option<&'a [WakeUp]>,
    pub(crate) attached: Mutex<Vec<Arc<dyn Detachable>>>,
}

impl<W> WriteBatch<'_, W> {
    /// The statement with its first four arguments bound: `$1` the id of the batch uuid, `$2` channels text[] and `$3`
    /// payloads text[] for `{schema}.finish_batch`, `$4` patient boolean. It returns one row: outcomes text[], backend
    /// integer.
    pub fn query<'q>(&'q self, sql: &Sql) -> Query<'q, Postgres, PgArguments> {
        sqlx::query(sql).bind(self.id).bind(self.channels).bind(self.payloads).bind(self.patient)
    }

    /// Reads the row of a statement made by [`query`](Self::query).
    ///
    /// # Errors
    /// If its columns are not `outcomes text[], backend integer`.
    pub fn result<B: BatchedWrite<Write = W>>(
        &self,
        kind: &B,
        row: &PgRow,
    ) -> reveille_pg::Result<BatchResult<B::Outcome>> {
        let texts: Vec<Option<String>> = row.try_get(0)?;
        Ok(self.decoded(kind, texts, row.try_get(1)?))
    }

    /// Begins a poll that the statement makes itself, after its writes: for waiters of `consumer` that are asleep and
    /// that the batch may wake. `None` if there are none, and for a statement that must not claim, because it is sent
    /// again, sends a write alone, or runs through a pooler.
    ///
    /// The statement claims for [`AttachedPoll::request`], and the result goes to [`BatchResult::with_claims`]. Its
    /// transaction commits writes, so that it must not turn `synchronous_commit` off. If it fails, it is sent again
    /// without claims.
    pub fn attach<C: Claim>(&self, consumer: &Consumer<C>) -> Option<AttachedPoll<C>> {
        let poll = consumer.attach(self.claims_for?)?;
        self.attached.lock().push(poll.detachable());
        Some(poll)
    }

    /// The statement takes long: its attached polls are abandoned.
    pub(crate) fn detach(&self) {
        let attached = self.attached.lock().clone();
        attached.iter().for_each(|poll| poll.detach());
    }

    /// The result with these recorded outcomes.
    pub(crate) fn decoded<B: BatchedWrite<Write = W>>(
        &self,
        kind: &B,
        texts: Vec<Option<String>>,
        backend: Option<i32>,
    ) -> BatchResult<B::Outcome> {
        let complete = texts.len() == self.writes.len();
        let decode =
            |(write, text): (&&W, Option<String>)| text.map(|text| kind.decode(write, &text).ok_or(UnknownOutcome));
        let outcomes = if complete { self.writes.iter().zip(texts).map(decode).collect() } else { Vec::new() };
        BatchResult { outcomes, backend: backend.and_then(|pid| u32::try_from(pid).ok()), claims: Vec::new() }
    }
}

/// A recorded text that is no outcome.
#[derive(Debug)]
pub(crate) struct UnknownOutcome;

/// The result of a batch's statement.
pub struct BatchResult<O> {
    /// One per write, in order; `None` for a write whose row was locked.
    pub(crate) outcomes: Vec<Option<Result<O, UnknownOutcome>>>,
    pub(crate) backend: Option<u32>,
    /// What the statement has claimed.
    pub(crate) claims: Vec<Box<dyn BatchClaim>>,
}

impl<O> BatchResult<O> {
    /// A result made of typed outcomes: one per write in order, `None` for one whose row was locked, and the backend
    /// that notified, if any did.
    pub fn new(outcomes: Vec<Option<O>>, backend: Option<i32>) -> BatchResult<O> {
        let outcomes = outcomes.into_iter().map(|outcome| outcome.map(Ok)).collect();
        BatchResult { outcomes, backend: backend.and_then(|pid| u32::try_from(pid).ok()), claims: Vec::new() }
    }

    /// Adds what the statement has claimed for an attached poll. It is delivered after the batch's own effects.
    pub fn with_claims<C: Claim>(mut self, poll: AttachedPoll<C>, result: PollResult<C::Item>) -> BatchResult<O> {
        self.claims.push(Box::new(AttachedResult { poll, claimed: Claimed::Complete(result) }));
        self
    }

    /// The same if more has to be loaded than the statement returns: `loading` runs after the batch's own effects, and
    /// no write waits for it. If it fails, the claims are unanswered.
    pub fn with_claims_later<C: Claim>(
        mut self,
        poll: AttachedPoll<C>,
        loading: impl Future<Output = reveille_pg::Result<PollResult<C::Item>>> + Send + 'static,
    ) -> BatchResult<O> {
        self.claims.push(Box::new(AttachedResult { poll, claimed: Claimed::Incomplete(Box::pin(loading)) }));
        self
    }
}

impl<O: fmt::Debug> fmt::Debug for BatchResult<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchResult")
            .field("outcomes", &self.outcomes)
            .field("backend", &self.backend)
            .field("claims", &self.claims.len())
            .finish()
    }
}
