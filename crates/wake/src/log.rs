//! The kept outcomes of flights: asking for them, and removing them once they have been heard.
//!
//! A process needs the outcome of a flight only until it knows it, so it removes its own by a range of ids, up to its oldest
//! flight in the air; clocks play no part. What a process that died has left is removed by age, once, by the next one.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pg::{Database, Schema, Sql};
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use crate::error::broken;

/// Outcomes are removed after this many flights, or this long after the last removal if there was a flight since.
const PRUNE_AFTER: u64 = 1_000;
const PRUNE_EVERY: Duration = Duration::from_secs(60);
/// How long asking for an outcome may take.
const ASK_TIMEOUT: Duration = Duration::from_secs(10);
/// The constraint that stops a flight from happening twice.
pub(crate) const FLIGHT_KEY: &str = "flight_pkey";

pub(crate) struct Log {
    /// Names this sender's flights among all others'.
    node: u64,
    state: Arc<Mutex<State>>,
    outcomes_of: Sql,
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

impl Log {
    pub(crate) fn new(schema: &Schema) -> Log {
        Log {
            node: fastrand::u64(..),
            state: Arc::default(),
            outcomes_of: schema.sql(include_str!("../sql/flight_outcomes.sql")),
            prune: schema.sql(include_str!("../sql/flight_prune.sql")),
            prune_dead: schema.sql(include_str!("../sql/flight_prune_dead.sql")),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new flight.
    pub(crate) fn open(&self) -> u64 {
        let mut state = self.state();
        state.last += 1;
        let entry = state.last;
        state.in_the_air.insert(entry);
        entry
    }

    pub(crate) fn id(&self, entry: u64) -> Uuid {
        Uuid::from_u64_pair(self.node, entry)
    }

    /// What became of a flight; `None` if it has not happened (yet).
    pub(crate) async fn outcomes(&self, db: &Database, id: Uuid) -> pg::Result<Option<Vec<Option<String>>>> {
        let asking = async {
            let mut session = db.session().await?;
            let outcomes = sqlx::query_scalar(&self.outcomes_of).bind(id).fetch_optional(&mut *session).await?;
            session.finish().await?;
            Ok(outcomes)
        };
        timeout(ASK_TIMEOUT, asking)
            .await
            .unwrap_or_else(|_| Err(broken(std::io::ErrorKind::TimedOut, "no answer in time")))
    }

    /// The outcome of a flight is known, or given up. Removes what is no longer needed, now and then.
    pub(crate) fn close(&self, entry: u64, db: &Database) {
        let now = Instant::now();
        let mut state = self.state();
        state.in_the_air.remove(&entry);
        state.since_prune += 1;
        let first = state.pruned_at.is_none();
        let overdue = state.pruned_at.is_none_or(|at| now.saturating_duration_since(at) >= PRUNE_EVERY);
        if !overdue && state.since_prune < PRUNE_AFTER {
            return;
        }
        state.since_prune = 0;
        state.pruned_at = Some(now);
        let oldest = state.in_the_air.first().copied().unwrap_or(state.last + 1);
        drop(state);
        let (from, to) = (self.id(0), self.id(oldest));
        let (db, prune, prune_dead) = (db.clone(), self.prune.clone(), self.prune_dead.clone());
        tokio::spawn(async move {
            let pruning = async {
                let mut session = db.session().await?;
                sqlx::query(&prune).bind(from).bind(to).execute(&mut *session).await?;
                if first {
                    sqlx::query(&prune_dead).execute(&mut *session).await?;
                }
                session.finish().await
            };
            if let Err(error) = pruning.await {
                tracing::debug!(%error, "kept outcomes could not be removed; the next flights do it");
            }
        });
    }
}
