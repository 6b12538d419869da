//! One connection for a few statements.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Connection, PgConnection, PgTransaction, Postgres};

use super::route::Route;
use super::{Counted, Database, suspicion};
use crate::retry::{Policy, retry};
use crate::{Error, Result};

/// How long a session may wait before the hosts of a multi-host URL are asked which of them is the primary. A pool that is
/// merely busy answers sooner as a rule; if not, the question costs one connection.
const SUSPICIOUS_WAIT: Duration = Duration::from_millis(250);

/// How long the question may take why there was no connection in time. It comes on top of the time that a caller allowed.
const REASON_WITHIN: Duration = Duration::from_secs(1);

/// Opens a transaction. Claims lock in one statement and decide in the next, which must see what the first waited for; so
/// the level is stated, whatever the default of the role or of the application's pool is.
const BEGIN: &str = "begin isolation level read committed";

/// Likewise through a pooler. sqlx names the statements it prepares even when it does not keep them, and a pooler's server
/// connection may still have such names from another client: they are dropped in the same round trip.
const BEGIN_POOLED: &str = "begin isolation level read committed; deallocate all";

impl Database {
    /// One connection, from the pool. Through a transaction-mode pooler it is inside a transaction, because a statement with
    /// parameters is prepared and executed in two steps that must meet the same server; so end it with
    /// [`Session::finish`], always, or its work is rolled back there.
    ///
    /// # Errors
    /// All of them mean that nothing was done: [`Error::Exhausted`], [`Error::Unreachable`], [`Error::NoPrimary`] (transient),
    /// [`Error::Rejected`], [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Dropping the future gives the connection back.
    pub async fn session(&self) -> Result<Session> {
        if self.0.pooler {
            return Ok(Session(Inner::Transaction(self.begin().await?)));
        }
        Ok(Session(Inner::Plain(self.obtain(|| self.0.pool.acquire()).await?)))
    }

    /// The rows of a statement that may be sent again, because it reads, or changes nothing the second time: it is, if the database was away for a moment. `what` names
    /// it in the log.
    ///
    /// # Errors
    /// The database's, when it stays away or refuses.
    pub async fn ask<'q>(
        &self,
        what: &str,
        query: impl Fn() -> Query<'q, Postgres, PgArguments>,
    ) -> Result<Vec<PgRow>> {
        retry(&Policy::default(), what, async |_| {
            let mut session = self.session().await?;
            let rows = query().fetch_all(&mut *session).await?;
            session.finish().await?;
            Ok(rows)
        })
        .await
    }

    /// The rows of a statement that only reads and must not become a burden: the server itself ends it after `limit`, and it is sent
    /// once.
    ///
    /// # Errors
    /// The database's; [`Error::Interrupted`] or a cancelled statement when `limit` is over.
    ///
    /// # Cancel safety
    /// Dropping the future leaves a statement that ends by itself within `limit`.
    pub async fn ask_within(&self, limit: Duration, query: Query<'_, Postgres, PgArguments>) -> Result<Vec<PgRow>> {
        // The server's limit comes first; this one is for a server that has gone silent.
        super::within(limit * 2, async {
            let mut transaction = self.begin().await?;
            let setting = sqlx::query("select set_config('statement_timeout', $1, true)");
            setting.bind(limit.as_millis().to_string()).execute(&mut *transaction).await?;
            let rows = query.fetch_all(&mut *transaction).await?;
            transaction.rollback().await?;
            Ok(rows)
        })
        .await
    }

    /// A transaction on a connection from the pool. Dropping it rolls back.
    ///
    /// # Errors
    /// As [`Database::session`].
    ///
    /// # Cancel safety
    /// Dropping the future gives the connection back.
    pub async fn begin(&self) -> Result<PgTransaction<'static>> {
        if !self.0.pooler {
            return self.obtain(|| self.0.pool.begin_with(BEGIN)).await;
        }
        self.obtain(async || {
            let mut transaction = self.0.pool.begin_with(BEGIN_POOLED).await?;
            // Only the application's own pool keeps statements; what it keeps is not on this server.
            if transaction.cached_statements_size() > 0 {
                transaction.clear_cached_statements().await?;
            }
            Ok(transaction)
        })
        .await
    }

    /// Runs `get` on the pool, and meanwhile looks for the primary if it takes suspiciously long or fails.
    async fn obtain<T, F>(&self, get: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = sqlx::Result<T>>,
    {
        if self.1 == Counted::Yes {
            self.0.activity.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(route) = self.0.route.as_ref().filter(|route| route.has_alternatives()) {
            return Box::pin(self.obtain_from_primary(route, get)).await;
        }
        // The driver's future for this is some kilobytes large: not inside every future that asks for a session.
        let error = match Box::pin(get()).await {
            Ok(obtained) => return Ok(obtained),
            Err(sqlx::Error::PoolTimedOut) => Box::pin(self.why_timed_out()).await,
            Err(error) => self.failed_to_connect(error),
        };
        report(&error);
        Err(error)
    }

    /// Why the pool gave no connection in time. It does not say: it waits for a server that refuses connections as it waits
    /// for a connection that is in use. So the server is asked for one more.
    async fn why_timed_out(&self) -> Error {
        let route = self.0.route.as_ref().unwrap_or(&self.0.direct);
        match tokio::time::timeout(REASON_WITHIN, route.scout()).await {
            Ok(Ok(_)) => self.failed_to_connect(sqlx::Error::PoolTimedOut),
            Ok(Err(error)) => error,
            Err(_) => Error::silent(&route.address().servers()),
        }
    }

    fn failed_to_connect(&self, error: sqlx::Error) -> Error {
        let address = self.0.route.as_ref().unwrap_or(&self.0.direct).address();
        Error::connecting(&address.servers(), error)
    }

    /// As [`Database::obtain`], where the primary may be elsewhere. Whatever it is busy with when the time for a connection is
    /// over, the last failure is the answer.
    async fn obtain_from_primary<T, F>(&self, route: &Arc<Route>, get: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = sqlx::Result<T>>,
    {
        let server = |error| self.failed_to_connect(error);
        let mut last = Error::Exhausted;
        let search = async {
            loop {
                let aimed_at = route.current();
                match unless_it_moves(route, get()).await.map_err(server) {
                    Ok(obtained) => return Ok(obtained),
                    Err(error) => last = error,
                }
                report(&last);
                let mut has_moved = false;
                if last.is_transient() {
                    match route.scout().await {
                        Ok(place) => has_moved = place != aimed_at,
                        Err(error) => last = error,
                    }
                }
                if !last.is_transient() {
                    return Err(());
                }
                if !has_moved {
                    tokio::time::sleep(SUSPICIOUS_WAIT).await;
                }
            }
        };
        match tokio::time::timeout(self.0.acquire_timeout, search).await {
            Ok(Ok(obtained)) => Ok(obtained),
            Ok(Err(())) | Err(_) => Err(last),
        }
    }
}

/// Waits for `attempt`, unless the primary turns out to be elsewhere, which counts as a timeout.
async fn unless_it_moves<T>(route: &Arc<Route>, attempt: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    let aimed_at = route.current();
    let mut attempt = pin!(attempt);
    loop {
        let scouted = async {
            tokio::time::sleep(SUSPICIOUS_WAIT).await;
            route.scout().await
        };
        tokio::select! {
            answer = &mut attempt => return answer,
            // A failed scout changes nothing: the pool may be about to succeed all the same.
            found = scouted => if found.is_ok_and(|place| place != aimed_at) {
                return Err(sqlx::Error::PoolTimedOut);
            },
        }
    }
}

fn report(error: &Error) {
    match error {
        Error::Exhausted => suspicion::exhausted(),
        error if error.is_transient() => suspicion::interrupted(),
        _ => {}
    }
}

/// One connection, used as a [`PgConnection`]: `query.execute(&mut *session)`.
///
/// Directly it is a plain connection and every statement commits by itself; through a transaction-mode pooler all of them are
/// one transaction. Write what is right both ways: one statement, or an explicit transaction.
///
/// A statement waits for as long as the server takes, and for ever on a network that went silent: bound it on this side
/// (`tokio::time::timeout`) and turn the timeout into an [`Error`] by way of `std::io::ErrorKind::TimedOut`. Then the connection is
/// tested, for a bounded time, before the pool takes it back.
#[must_use = "a session does nothing by itself; end it with `finish`"]
pub struct Session(Inner);

enum Inner {
    Plain(PoolConnection<Postgres>),
    Transaction(PgTransaction<'static>),
}

impl Session {
    /// Gives the connection back; through a pooler, commits first. Dropping a session without this gives the connection back
    /// too, but through a pooler rolls back.
    ///
    /// # Errors
    /// Those of a commit: if [`Error::is_ambiguous`], the session's work may or may not be there. After a statement of the
    /// session failed there is nothing left to commit through a pooler, and that is an error here.
    pub async fn finish(self) -> Result<()> {
        match self.0 {
            Inner::Plain(_) => Ok(()),
            Inner::Transaction(mut transaction) => {
                // Committing a failed transaction rolls it back and reports success; any statement in it reports the failure.
                sqlx::raw_sql("select 1").execute(&mut *transaction).await?;
                Ok(transaction.commit().await?)
            }
        }
    }
}

impl Deref for Session {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        match &self.0 {
            Inner::Plain(connection) => connection,
            Inner::Transaction(transaction) => transaction,
        }
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut PgConnection {
        match &mut self.0 {
            Inner::Plain(connection) => connection,
            Inner::Transaction(transaction) => transaction,
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_transaction = matches!(self.0, Inner::Transaction(_));
        f.debug_struct("Session").field("is_transaction", &is_transaction).finish_non_exhaustive()
    }
}
