//! The audit: who has changed what, written in the transaction of the change.
//!
//! A server runs each request in [`acting`], with its client. Code that changes something calls [`Database::act`], or
//! captures an [`Entry`] and writes it in its own transaction. So a change that fails leaves no row, and a change that
//! commits cannot lack one. Without a client, as in a program that embeds a product, nothing is written.

use std::fmt;
use std::sync::Arc;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres};

use crate::retry::{Policy, retry};
use crate::{Database, Result, Sql};

/// The client of a request.
pub struct Actor {
    /// The statement that writes a row: `$1` actor, `$2` credentials, `$3` action, `$4` target, `$5` detail as JSON,
    /// `$6` request id; all are text.
    pub record: Sql,
    /// Its name.
    pub name: String,
    /// How it has authenticated.
    pub credentials: &'static str,
    /// The id of the request.
    pub request: String,
}

tokio::task_local! {
    static ACTOR: Arc<Actor>;
}

/// Runs a future on behalf of a client. Tasks that it spawns act for no client.
pub async fn acting<F: Future>(actor: Arc<Actor>, future: F) -> F::Output {
    ACTOR.scope(actor, future).await
}

/// What a client does: a row of the audit, before it is written.
#[derive(Clone)]
pub struct Entry {
    actor: Arc<Actor>,
    action: &'static str,
    target: String,
    detail: Option<String>,
}

impl Entry {
    /// An action of the current client, as `queue.delete`, and its target. `None`: there is no client.
    pub fn new(action: &'static str, target: impl Into<String>) -> Option<Entry> {
        let actor = ACTOR.try_with(Arc::clone).ok()?;
        Some(Entry { actor, action, target: target.into(), detail: None })
    }

    /// The same with details, in JSON. They must not contain payloads.
    pub fn detail(self, json: impl Into<String>) -> Entry {
        Entry { detail: Some(json.into()), ..self }
    }

    /// Writes the row in the transaction of the change.
    ///
    /// # Errors
    /// Those of the statement: the change must not be committed then.
    pub async fn write(&self, conn: &mut PgConnection) -> Result<()> {
        let Actor { record, name, credentials, request } = &*self.actor;
        let query = sqlx::query(record).bind(name).bind(*credentials).bind(self.action);
        query.bind(&self.target).bind(&self.detail).bind(request).execute(conn).await?;
        Ok(())
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("action", &self.action).finish_non_exhaustive()
    }
}

impl Database {
    /// As [`ask`](Self::ask), for a statement that changes something: writes `entry` in its transaction if `has_changed`
    /// accepts its rows.
    ///
    /// # Errors
    /// The last error of the statements.
    pub async fn act<'q>(
        &self,
        what: &str,
        entry: Option<Entry>,
        query: impl Fn() -> Query<'q, Postgres, PgArguments>,
        has_changed: impl Fn(&[PgRow]) -> bool,
    ) -> Result<Vec<PgRow>> {
        let Some(entry) = entry else { return self.ask(what, query).await };
        retry(&Policy::default(), what, async |_| {
            let mut transaction = self.begin().await?;
            let rows = query().fetch_all(&mut *transaction).await?;
            if has_changed(&rows) {
                entry.write(&mut transaction).await?;
            }
            transaction.commit().await?;
            Ok(rows)
        })
        .await
    }
}
