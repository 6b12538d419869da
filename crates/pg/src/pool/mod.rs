//! A database: one pool, however it is reached.
//!
//! The pool is our own, made from a URL ([`Database::connect`]), or the application's ([`Database::from_pool`]). It may lead
//! through a transaction-mode pooler, and its URL may name several hosts of which one is the primary; [`Database::session`]
//! hides the difference. Nothing is assumed about a connection's session, and nothing is left in it but the time
//! at which its plans are made anew.
//!
//! There is no ping before a connection is used. A connection that died while idle shows itself by
//! [`Error::Interrupted`](crate::Error::Interrupted), once; then the other idle ones are tested before their next use.
//! [`retry`](crate::retry::retry) gets past it.

mod options;
mod route;
mod session;
pub(crate) mod suspicion;
mod url;
mod version;
mod within;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

pub use options::Options;
use options::Startup;
use route::Route;
pub use session::Session;
use url::Address;
pub use version::OLDEST_SERVER;
pub use within::within;

use crate::{Error, Result};

/// An idle connection is closed after this long, so that a pool that was busy once does not hold the server's slots.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// A connection is replaced after this long: its server process has grown its caches, and a name may lead elsewhere by now.
const MAX_LIFETIME: Duration = Duration::from_secs(30 * 60);

/// A pool of connections to one database. Cheap to clone; all clones are one pool.
#[derive(Clone)]
pub struct Database(Arc<Inner>, Counted);

/// Whether the connections that a handle takes are counted as activity.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counted {
    Yes,
    No,
}

struct Inner {
    pool: PgPool,
    pooler: bool,
    /// How the pool finds its server. `None` for the application's own pool, which finds it itself.
    route: Option<Arc<Route>>,
    /// How dedicated connections find it.
    direct: Arc<Route>,
    /// `None` with a pooler and no URL around it.
    dedicated: Option<Startup>,
    acquire_timeout: Duration,
    /// How often a connection was taken from the pool.
    activity: AtomicU64,
}

impl Database {
    /// Opens a connection by each URL, so that a wrong one fails here and says why, and makes a pool.
    ///
    /// # Errors
    /// [`Error::Config`] for a URL or option that cannot be used; [`Error::Unreachable`], [`Error::NoPrimary`],
    /// [`Error::Rejected`] or [`Error::OldServer`] for a server that cannot.
    pub async fn connect(url: &str, options: Options) -> Result<Database> {
        let database = Database::connect_lazy(url, options)?;
        if let Err(error) = database.check().await {
            database.close().await;
            return Err(error);
        }
        Ok(database)
    }

    /// Opens a connection by each URL and closes it again: whether the server can be used, and if not, why. The pool itself
    /// waits for a server that refuses connections, because it may be restarting; this answers at once.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::NoPrimary`] (transient), [`Error::Rejected`], [`Error::OldServer`].
    pub async fn check(&self) -> Result<()> {
        let (main, direct) = (self.0.route.as_ref(), &self.0.direct);
        // The direct route is the main one as a rule.
        for route in main.into_iter().chain(main.is_none_or(|main| !Arc::ptr_eq(main, direct)).then_some(direct)) {
            route.scout().await?;
        }
        Ok(())
    }

    /// Makes a pool that connects when it is first used. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Config`] for a URL or option that cannot be used.
    pub fn connect_lazy(url: &str, options: Options) -> Result<Database> {
        if options.max_connections == 0 {
            return Err(Error::config("max_connections", "it must be at least 1"));
        }
        let address = Address::parse("url", url)?;
        let startup = Startup::of(&options, address.is_named);
        let route = Route::new(address, &startup);
        let pool = PgPoolOptions::new()
            .max_connections(options.max_connections)
            .acquire_timeout(options.acquire_timeout)
            .idle_timeout(IDLE_TIMEOUT)
            .max_lifetime(MAX_LIFETIME);
        let pool = route.pool(pool, &startup);

        let (direct, dedicated) = match options.listen_url.as_deref() {
            Some(url) => {
                let address = Address::parse("listen_url", url)?;
                let startup = Startup { pooler: false, ..startup };
                (Route::new(address, &startup), Some(startup))
            }
            None => (route.clone(), (!options.pooler).then_some(startup)),
        };
        let inner = Inner {
            pool,
            pooler: options.pooler,
            route: Some(route),
            direct,
            dedicated,
            acquire_timeout: options.acquire_timeout,
            activity: AtomicU64::new(0),
        };
        Ok(Database(Arc::new(inner), Counted::Yes))
    }

    /// Uses the application's own pool, which leads to the server directly. Nothing of its sessions is assumed, and nothing changed
    /// but that their plans are made anew now and then.
    pub fn from_pool(pool: PgPool) -> Database {
        let direct = Address::of(&pool.connect_options());
        Database::around(pool, false, Some(direct))
    }

    /// Uses the application's own pool, saying whether it leads through a transaction-mode pooler, and if so how to reach the
    /// server directly for `LISTEN`.
    ///
    /// # Errors
    /// [`Error::Config`] for a `listen_url` that cannot be used.
    pub fn from_pool_with(pool: PgPool, pooler: bool, listen_url: Option<&str>) -> Result<Database> {
        let direct = match listen_url {
            Some(url) => Some(Address::parse("listen_url", url)?),
            None => (!pooler).then(|| Address::of(&pool.connect_options())),
        };
        Ok(Database::around(pool, pooler, direct))
    }

    fn around(pool: PgPool, pooler: bool, direct: Option<Address>) -> Database {
        let startup = Startup::of(&Options::default(), true);
        let dedicated = direct.is_some().then(|| startup.clone());
        let address = direct.unwrap_or_else(|| Address::of(&pool.connect_options()));
        let acquire_timeout = pool.options().get_acquire_timeout();
        let direct = Route::new(address, &startup);
        let activity = AtomicU64::new(0);
        let inner = Inner { pool, pooler, route: None, direct, dedicated, acquire_timeout, activity };
        Database(Arc::new(inner), Counted::Yes)
    }

    /// The pool itself, for what sqlx can do and this type does not.
    ///
    /// Through a transaction-mode pooler a statement with parameters must not be run on it: sqlx prepares and executes it in
    /// two steps, and the pooler may send them to two servers. [`Database::session`] and [`Database::begin`] keep them
    /// together.
    pub fn pool(&self) -> &PgPool {
        &self.0.pool
    }

    /// Whether sessions go through a transaction-mode pooler.
    pub fn has_pooler(&self) -> bool {
        self.0.pooler
    }

    /// A lazy pool of exactly one connection, opened directly (by `listen_url` if there is one) and kept for good, for
    /// listening and for what must not wait for the main pool. `settings` are server settings of its session, such as
    /// `("synchronous_commit", "off")`. It follows the primary for as long as this `Database` lives; close it when done.
    ///
    /// # Errors
    /// [`Error::Config`] naming `listen_url` if the database can be reached through a pooler only
    /// ([`Database::can_listen`] is false).
    pub fn dedicated(&self, application_name: &str, settings: &[(&str, &str)]) -> Result<PgPool> {
        let Some(startup) = &self.0.dedicated else {
            return Err(Error::config("listen_url", "a pooler is in between and no direct URL is given"));
        };
        let mut startup = Startup { application_name: Some(application_name.to_owned()), ..startup.clone() };
        startup.settings.extend(settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let options = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(self.0.acquire_timeout)
            .idle_timeout(None)
            .max_lifetime(None);
        Ok(self.0.direct.pool(options, &startup))
    }

    /// Whether `LISTEN` works: false if the database can be reached through a pooler only.
    pub fn can_listen(&self) -> bool {
        self.0.dedicated.is_some()
    }

    /// Which database this is, as `user@host:port/database` of the direct address: a stable key without any secret.
    pub fn identity(&self) -> String {
        self.0.direct.address().identity()
    }

    /// How often a connection was taken from the pool so far. While this number stays the same, this process has sent no statement, so
    /// whatever it read before is still what it would read, unless another process has written.
    pub fn activity(&self) -> u64 {
        self.0.activity.load(Ordering::Relaxed)
    }

    /// The same pool for statements that only observe: connections taken through this handle do not count as
    /// [`activity`](Self::activity). Without it, two observers that each read after activity would wake each other for ever.
    #[must_use]
    pub fn observer(&self) -> Database {
        Database(self.0.clone(), Counted::No)
    }

    /// Closes the pool and waits until its connections are closed. Sessions in use are waited for.
    pub async fn close(&self) {
        self.0.pool.close().await;
    }
}

/// Where it leads, never how it logs in.
impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("identity", &self.identity())
            .field("pooler", &self.0.pooler)
            .field("connections", &self.0.pool.size())
            .finish()
    }
}
