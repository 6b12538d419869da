//! The kept outcomes of flights: settling what is unknown, and removing what has been heard.
//!
//! A process needs the outcome of an attempt only until it knows it, so it removes its own by a range of ids, up to its oldest
//! attempt in the air; clocks play no part. What a process that died has left is removed by age, once, by the next one.
//!
//! A range begins where the last one ended: while some transaction is old enough to see them, removed rows stay in the index, and a range from the
//! beginning wades through all of them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pg::{Database, Schema, Sql, within};
use tokio::time::Instant;
use uuid::Uuid;

/// Outcomes are removed after this many attempts, or this long after the last removal if there was an attempt since.
const PRUNE_AFTER: u64 = 1_000;
const PRUNE_EVERY: Duration = Duration::from_secs(60);
/// Every so many removals one begins at the beginning, for the attempt that was given up and committed after all.
const PRUNE_WHOLE: u64 = 64;
/// How long settling may take before it is tried anew: it waits for an attempt that is just committing.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct Log {
    shared: Arc<Shared>,
    fence: Sql,
    outcomes_of: Sql,
}

struct Shared {
    db: Database,
    /// Names this sender's attempts among all others'.
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
    /// Before this all have been removed.
    pruned_to: u64,
}

/// Attempts whose outcomes are to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    from: u64,
    to: u64,
    /// It is the first time.
    first: bool,
}

impl State {
    /// An attempt has ended. What to remove, if it is time to.
    fn ended(&mut self, number: u64, now: Instant) -> Option<Range> {
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

/// An attempt whose outcome may still be needed. Dropped, it is not.
pub(crate) struct Entry {
    pub(crate) id: Uuid,
    number: u64,
    shared: Arc<Shared>,
}

impl Log {
    pub(crate) fn new(db: &Database, schema: &Schema) -> Log {
        Log {
            shared: Arc::new(Shared {
                db: db.clone(),
                node: fastrand::u64(..),
                state: Mutex::default(),
                prune: schema.sql(pg::statement!("prune_batches")),
                prune_dead: schema.sql(pg::statement!("prune_dead_batches")),
            }),
            fence: schema.sql(pg::statement!("fence_batch")),
            outcomes_of: schema.sql(pg::statement!("batch_outcomes")),
        }
    }

    /// A new attempt.
    pub(crate) fn open(&self) -> Entry {
        let mut state = self.shared.state();
        state.last += 1;
        let number = state.last;
        state.in_progress.insert(number);
        Entry { id: self.shared.id(number), number, shared: self.shared.clone() }
    }

    /// What became of an attempt; `None`: it has not happened, and now it cannot any more, because its place is taken.
    ///
    /// An attempt that is just committing is waited for.
    pub(crate) async fn settle(&self, id: Uuid) -> pg::Result<Option<Vec<Option<String>>>> {
        let settling = async {
            let mut session = self.shared.db.session().await?;
            let fenced = sqlx::query(&self.fence).bind(id).execute(&mut *session).await?.rows_affected() == 1;
            // Another statement, because the first one's snapshot is older than what it waited for.
            let outcomes: Vec<Option<String>> = match fenced {
                true => Vec::new(),
                false => sqlx::query_scalar(&self.outcomes_of).bind(id).fetch_one(&mut *session).await?,
            };
            session.finish().await?;
            // No outcomes is a place taken, by this call or by one before whose own answer was lost.
            Ok(Some(outcomes).filter(|outcomes| !outcomes.is_empty()))
        };
        within(SETTLE_TIMEOUT, settling).await
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

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
        match within(SETTLE_TIMEOUT, pruning).await {
            Ok(()) => {
                let mut state = self.state();
                state.pruned_to = state.pruned_to.max(to);
            }
            Err(error) => tracing::debug!(%error, "kept outcomes could not be removed; a later flight does it"),
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let ended = self.shared.state().ended(self.number, Instant::now());
        let Some(range) = ended else { return };
        // Writer run inside the runtime; should it be going away, the next process removes what is left.
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

    /// A range ends at the oldest attempt in the air and begins where the last one that succeeded ended; now and then at the beginning.
    #[tokio::test(start_paused = true)]
    async fn ranges_follow_each_other() {
        let (mut state, now) = (State::default(), Instant::now());
        let only = send(&mut state);
        assert_eq!(state.ended(only, now), Some(Range { from: 0, to: 2, first: true }));
        state.pruned_to = 2;
        let stays = send(&mut state);
        let mut ranges = Vec::new();
        for _ in 0..PRUNE_AFTER * PRUNE_WHOLE {
            let number = send(&mut state);
            ranges.extend(state.ended(number, now));
        }
        assert_eq!(ranges[0], Range { from: 2, to: stays, first: false });
        assert_eq!(ranges[1].from, 2, "nobody said that the last one succeeded");
        assert_eq!(ranges[PRUNE_WHOLE as usize - 2].from, 0);
        assert_eq!(ranges.len() as u64, PRUNE_WHOLE);
        let since = state.ended(stays, now + PRUNE_EVERY);
        assert_eq!(since, Some(Range { from: 2, to: state.last + 1, first: false }), "a minute later anyway");
    }
}
