//! Sessions: one connection for a few statements.

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

/// How long a session may wait before the hosts of a multi-host URL are probed for the primary. A busy pool usually
/// responds sooner; if not, the probe costs one connection.
const SUSPICIOUS_WAIT: Duration = Duration::from_millis(250);

/// How long finding the reason for an acquire timeout may take, in addition to the timeout itself.
const REASON_WITHIN: Duration = Duration::from_secs(1);

/// Begins a transaction. Claims lock in one statement and decide in the next, which must see the rows that the first
/// waited for; so the isolation level is set explicitly, whatever the default of the role or pool.
const BEGIN: &str = "begin isolation level read committed";

/// The same through a pooler. sqlx names prepared statements even when it does not cache them, and a pooler's server
/// connection may still have the same names from another client: they are dropped in the same round trip.
const BEGIN_POOLED: &str = "begin isolation level read committed; deallocate all";

impl Database {
    /// Acquires one connection from the pool. Through a transaction-mode pooler it is inside a transaction, because a
    /// statement with parameters is prepared and executed in two steps that must reach the same server. Always end it
    /// with [`Session::finish`]; otherwise its work is rolled back when a pooler is used.
    ///
    /// # Errors
    /// [`Error::Exhausted`], [`Error::Unreachable`], [`Error::NoPrimary`] (transient), [`Error::Rejected`],
    /// [`Error::Closed`]. In every case no statement was sent.
    ///
    /// # Cancel safety
    /// Dropping the future returns the connection.
    pub async fn session(&self) -> Result<Session> {
        if self.0.pooler {
            return Ok(Session(Inner::Transaction(self.begin().await?)));
        }
        Ok(Session(Inner::Plain(self.obtain(|| self.0.pool.acquire()).await?)))
    }

    /// Runs an idempotent statement, retrying transient failures, and returns its rows. `what` names it in the log.
    ///
    /// # Errors
    /// The last error of the statement.
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

    /// Runs a read-only statement once and returns its rows. The server cancels it after `limit`.
    ///
    /// # Errors
    /// Those of the statement; [`Error::Interrupted`] or a cancelled statement after `limit`.
    ///
    /// # Cancel safety
    /// If the future is dropped, the server still cancels the statement after `limit`.
    pub async fn ask_within(&self, limit: Duration, query: Query<'_, Postgres, PgArguments>) -> Result<Vec<PgRow>> {
        // The server's limit expires first; this one is for a server that does not respond.
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

    /// Begins a transaction on a connection from the pool. Dropping it rolls back.
    ///
    /// # Errors
    /// As [`Database::session`].
    ///
    /// # Cancel safety
    /// Dropping the future returns the connection.
    pub async fn begin(&self) -> Result<PgTransaction<'static>> {
        if !self.0.pooler {
            return self.obtain(|| self.0.pool.begin_with(BEGIN)).await;
        }
        self.obtain(async || {
            let mut transaction = self.0.pool.begin_with(BEGIN_POOLED).await?;
            // Only the application's own pool caches statements, and they are not prepared on this server connection.
            if transaction.cached_statements_size() > 0 {
                transaction.clear_cached_statements().await?;
            }
            Ok(transaction)
        })
        .await
    }

    /// Runs `get` on the pool, and probes for the primary if it takes too long or fails.
    async fn obtain<T, F>(&self, get: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = sqlx::Result<T>>,
    {
        if self.1 == Counted::Yes && super::OBSERVING.try_with(|()| ()).is_err() {
            self.0.activity.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(route) = self.0.route.as_ref().filter(|route| route.has_alternatives()) {
            return Box::pin(self.obtain_from_primary(route, get)).await;
        }
        // The driver's future takes some kilobytes: boxed, so that callers' futures do not contain it.
        let error = match Box::pin(get()).await {
            Ok(obtained) => return Ok(obtained),
            Err(sqlx::Error::PoolTimedOut) => Box::pin(self.why_timed_out()).await,
            Err(error) => self.failed_to_connect(error),
        };
        report(&error);
        Err(error)
    }

    /// Why acquiring timed out. The pool waits for an unreachable server just as it waits for a connection in use, so
    /// one more connection is opened to tell them apart.
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

    /// As [`Database::obtain`], where the primary may change. When the acquire timeout expires, the last failure is
    /// returned.
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
                        Ok(route) => has_moved = route != aimed_at,
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

/// Waits for `attempt`, unless the primary changes, which counts as a timeout.
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
            // A failed probe is ignored: the pool may still succeed.
            found = scouted => if found.is_ok_and(|index| index != aimed_at) {
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
/// Without a pooler every statement commits by itself; through a transaction-mode pooler all of them are one
/// transaction. Write code that is correct in both cases: one statement, or an explicit transaction.
///
/// A statement has no timeout on the client side and waits forever on a silent network: wrap it in
/// [`within`](fn@crate::within), so that the connection is tested before the pool reuses it.
#[must_use = "a session does nothing by itself; end it with `finish`"]
pub struct Session(Inner);

enum Inner {
    Plain(PoolConnection<Postgres>),
    Transaction(PgTransaction<'static>),
}

impl Session {
    /// Returns the connection to the pool; through a pooler, commits first. Dropping a session also returns the
    /// connection, but through a pooler rolls back.
    ///
    /// # Errors
    /// Those of a commit: if [`Error::is_ambiguous`], the session's work may or may not be committed. Through a pooler
    /// it also fails if a statement of the session failed, because its transaction was rolled back.
    pub async fn finish(self) -> Result<()> {
        match self.0 {
            Inner::Plain(_) => Ok(()),
            Inner::Transaction(mut transaction) => {
                // Committing a failed transaction rolls it back and reports success; a statement in it reports the
                // failure.
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
