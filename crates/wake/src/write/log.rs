//! The recorded outcomes of write batches: resolving unknown ones, and removing those that have been received.
//!
//! A process needs the outcomes of an attempt only until it has received them, so it removes its own by a range of ids,
//! up to its oldest attempt in progress; this depends on no clock. What a dead process has left is removed by age,
//! once, by the next one.
//!
//! A range begins where the last one ended: while some transaction is old enough to see them, deleted rows stay in the
//! index, and a range from the beginning would have to skip all of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reveille_pg::{Database, Schema, Sql, within};
use tokio::time::Instant;
use uuid::Uuid;

/// Outcomes are removed after this many attempts, or this long after the last removal if there was an attempt since.
const PRUNE_AFTER: u64 = 1_000;
const PRUNE_EVERY: Duration = Duration::from_secs(60);
/// Every so many removals one begins at the beginning, for attempts that were given up and committed after all.
const PRUNE_WHOLE: u64 = 64;
/// How long resolving may take before it is tried again: it waits for an attempt that is just committing.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct BatchLog {
    shared: Arc<Shared>,
    fence: Sql,
    outcomes_of: Sql,
}

struct Shared {
    db: Database,
    /// The first half of the ids of this writer's attempts.
    node: u64,
    state: Mutex<State>,
    prune: Sql,
    prune_dead: Sql,
}

#[derive(Default)]
struct State {
    last: u64,
    in_progress: BTreeSet<u64>,
    since_prune: u64,
    pruned_at: Option<Instant>,
    prunes: u64,
    /// All before this have been removed.
    pruned_to: u64,
}

/// Attempts whose outcomes are to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    from: u64,
    to: u64,
    /// Whether it is the first removal of this writer.
    first: bool,
}

impl State {
    /// An attempt has ended. Returns what to remove, if a removal is due.
    fn attempt_ended(&mut self, number: u64, now: Instant) -> Option<Range> {
        self.in_progress.remove(&number);
        self.since_prune += 1;
        let first = self.pruned_at.is_none();
        let overdue = self.pruned_at.is_none_or(|at| now.saturating_duration_since(at) >= PRUNE_EVERY);
        if !overdue && self.since_prune < PRUNE_AFTER {
            return None;
        }
        self.since_prune = 0;
        self.pruned_at = Some(now);
        self.prunes += 1;
        let from = if self.prunes.is_multiple_of(PRUNE_WHOLE) { 0 } else { self.pruned_to };
        let to = self.in_progress.first().copied().unwrap_or(self.last + 1);
        Some(Range { from, to, first })
    }
}

/// An attempt whose recorded outcomes may still be needed; after this is dropped they are not.
pub(crate) struct LogEntry {
    pub(crate) id: Uuid,
    number: u64,
    shared: Arc<Shared>,
}

impl BatchLog {
    pub(crate) fn new(db: &Database, schema: &Schema) -> BatchLog {
        BatchLog {
            shared: Arc::new(Shared {
                db: db.clone(),
                node: fastrand::u64(..),
                state: Mutex::default(),
                prune: schema.sql(reveille_pg::statement!("prune_batches")),
                prune_dead: schema.sql(reveille_pg::statement!("prune_dead_batches")),
            }),
            fence: schema.sql(reveille_pg::statement!("fence_batch")),
            outcomes_of: schema.sql(reveille_pg::statement!("batch_outcomes")),
        }
    }

    /// A new attempt.
    pub(crate) fn open(&self) -> LogEntry {
        let mut state = self.shared.state.lock();
        state.last += 1;
        let number = state.last;
        state.in_progress.insert(number);
        LogEntry { id: self.shared.id(number), number, shared: self.shared.clone() }
    }

    /// The recorded outcomes of an attempt; `None`: it has not committed, and cannot any more, because an empty record
    /// has its id.
    ///
    /// Waits for an attempt that is just committing.
    pub(crate) async fn resolve(&self, id: Uuid) -> reveille_pg::Result<Option<Vec<Option<String>>>> {
        let resolving = async {
            let mut session = self.shared.db.session().await?;
            let fenced = sqlx::query(&self.fence).bind(id).execute(&mut *session).await?.rows_affected() == 1;
            // A second statement, because the snapshot of the first is older than the commit it may have waited for.
            let outcomes: Vec<Option<String>> = match fenced {
                true => Vec::new(),
                false => sqlx::query_scalar(&self.outcomes_of).bind(id).fetch_one(&mut *session).await?,
            };
            session.finish().await?;
            // An empty record was made by this call, or by an earlier one whose answer was lost.
            Ok(Some(outcomes).filter(|outcomes| !outcomes.is_empty()))
        };
        within(RESOLVE_TIMEOUT, resolving).await
    }
}

impl Shared {
    fn id(&self, number: u64) -> Uuid {
        Uuid::from_u64_pair(self.node, number)
    }

    async fn prune(self: Arc<Self>, Range { from, to, first }: Range) {
        let pruning = async {
            let mut session = self.db.session().await?;
            sqlx::query(&self.prune).bind(self.id(from)).bind(self.id(to)).execute(&mut *session).await?;
            if first {
                sqlx::query(&self.prune_dead).execute(&mut *session).await?;
            }
            session.finish().await
        };
        match within(RESOLVE_TIMEOUT, pruning).await {
            Ok(()) => {
                let mut state = self.state.lock();
                state.pruned_to = state.pruned_to.max(to);
            }
            Err(error) => tracing::debug!(%error, "cannot remove recorded outcomes; a later batch does"),
        }
    }
}

impl Drop for LogEntry {
    fn drop(&mut self) {
        let range = self.shared.state.lock().attempt_ended(self.number, Instant::now());
        let Some(range) = range else { return };
        // If the runtime is shutting down, the next process removes what is left.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(self.shared.clone().prune(range));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(state: &mut State) -> u64 {
        state.last += 1;
        state.in_progress.insert(state.last);
        state.last
    }

    /// A range ends at the oldest attempt in progress and begins where the last successful one ended; sometimes at the
    /// beginning.
    #[tokio::test(start_paused = true)]
    async fn ranges_follow_each_other() {
        let (mut state, now) = (State::default(), Instant::now());
        let only = send(&mut state);
        assert_eq!(state.attempt_ended(only, now), Some(Range { from: 0, to: 2, first: true }));
        state.pruned_to = 2;
        let stays = send(&mut state);
        let mut ranges = Vec::new();
        for _ in 0..PRUNE_AFTER * PRUNE_WHOLE {
            let number = send(&mut state);
            ranges.extend(state.attempt_ended(number, now));
        }
        assert_eq!(ranges[0], Range { from: 2, to: stays, first: false });
        assert_eq!(ranges[1].from, 2, "the last one has not succeeded");
        assert_eq!(ranges[PRUNE_WHOLE as usize - 2].from, 0);
        assert_eq!(ranges.len() as u64, PRUNE_WHOLE);
        let since = state.attempt_ended(stays, now + PRUNE_EVERY);
        assert_eq!(since, Some(Range { from: 2, to: state.last + 1, first: false }), "a minute later anyway");
    }
}
