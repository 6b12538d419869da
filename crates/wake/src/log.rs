//! The kept outcomes of flights: settling what is unknown, and removing what has been heard.
//!
//! A process needs the outcome of an attempt only until it knows it, so it removes its own by a range of ids, up to its oldest
//! attempt in the air; clocks play no part. What a process that died has left is removed by age, once, by the next one.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pg::{Database, Schema, Sql, within};
use tokio::time::Instant;
use uuid::Uuid;

/// Outcomes are removed after this many attempts, or this long after the last removal if there was an attempt since.
const PRUNE_AFTER: u64 = 1_000;
const PRUNE_EVERY: Duration = Duration::from_secs(60);
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
    in_the_air: BTreeSet<u64>,
    since_prune: u64,
    pruned_at: Option<Instant>,
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
                prune: schema.sql(include_str!("../sql/flight_prune.sql")),
                prune_dead: schema.sql(include_str!("../sql/flight_prune_dead.sql")),
            }),
            fence: schema.sql(include_str!("../sql/flight_fence.sql")),
            outcomes_of: schema.sql(include_str!("../sql/flight_outcomes.sql")),
        }
    }

    /// A new attempt.
    pub(crate) fn open(&self) -> Entry {
        let mut state = self.shared.state();
        state.last += 1;
        let number = state.last;
        state.in_the_air.insert(number);
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

    /// The ids to remove, if it is time to; and whether it is the first time.
    fn prunable(&self, ended: u64, now: Instant) -> Option<(Uuid, Uuid, bool)> {
        let mut state = self.state();
        state.in_the_air.remove(&ended);
        state.since_prune += 1;
        let first = state.pruned_at.is_none();
        let overdue = state.pruned_at.is_none_or(|at| now.saturating_duration_since(at) >= PRUNE_EVERY);
        if !overdue && state.since_prune < PRUNE_AFTER {
            return None;
        }
        state.since_prune = 0;
        state.pruned_at = Some(now);
        let oldest = state.in_the_air.first().copied().unwrap_or(state.last + 1);
        Some((self.id(0), self.id(oldest), first))
    }

    async fn prune(self: Arc<Self>, from: Uuid, to: Uuid, first: bool) {
        let pruning = async {
            let mut session = self.db.session().await?;
            sqlx::query(&self.prune).bind(from).bind(to).execute(&mut *session).await?;
            if first {
                sqlx::query(&self.prune_dead).execute(&mut *session).await?;
            }
            session.finish().await
        };
        if let Err(error) = within(SETTLE_TIMEOUT, pruning).await {
            tracing::debug!(%error, "kept outcomes could not be removed; a later flight does it");
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Some((from, to, first)) = self.shared.prunable(self.number, Instant::now()) else { return };
        // Flights run inside the runtime; should it be going away, the next process removes what is left.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(self.shared.clone().prune(from, to, first));
        }
    }
}
