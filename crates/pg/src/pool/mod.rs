//! Connection pool.
//!
//! The pool is created from a URL ([`Database::connect`]) or is the application's own ([`Database::from_pool`]). It may
//! lead through a transaction-mode pooler, and its URL may name several hosts of which one is the primary;
//! [`Database::session`] hides the difference. No session state is assumed, and none is left behind except the time at
//! which cached plans are replaced.
//!
//! Connections are not pinged before use. The first use of a connection that died while idle fails with
//! [`Error::Interrupted`](crate::Error::Interrupted); after that the other idle connections are tested before their
//! next use. [`retry`](crate::retry::retry) handles the failure.

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

/// An idle connection is closed after this long, so that a pool does not keep server slots after a burst.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// A connection is replaced after this long: the caches of its backend grow, and its host name may resolve differently.
const MAX_LIFETIME: Duration = Duration::from_secs(30 * 60);

/// A pool of connections to one database. Cheap to clone; clones share the pool.
#[derive(Clone)]
pub struct Database(Arc<Inner>, Counted);

/// Whether connections acquired through a handle count as activity.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counted {
    Yes,
    No,
}

tokio::task_local! {
    /// Set while a future runs whose statements do not count as activity.
    static OBSERVING: ();
}

/// Runs a future whose statements do not count as [`activity`](Database::activity), as if they went through
/// [`observer`](Database::observer): for a screen that reads through code that does other work as well. Tasks that the
/// future spawns count as usual.
pub async fn observing<F: Future>(future: F) -> F::Output {
    OBSERVING.scope((), future).await
}

struct Inner {
    pool: PgPool,
    pooler: bool,
    /// The route of the pool. `None` for the application's own pool, which connects by itself.
    route: Option<Arc<Route>>,
    /// The route of dedicated connections.
    direct: Arc<Route>,
    /// `None` with a pooler and no direct URL.
    dedicated: Option<Startup>,
    acquire_timeout: Duration,
    /// Number of connections acquired from the pool.
    activity: AtomicU64,
}

impl Database {
    /// Creates a pool and opens a connection with each URL, so that a wrong URL fails here with its reason.
    ///
    /// # Errors
    /// [`Error::Config`] for an invalid URL or option; [`Error::Unreachable`], [`Error::NoPrimary`],
    /// [`Error::Rejected`] or [`Error::OldServer`] for an unusable server.
    pub async fn connect(url: &str, options: Options) -> Result<Database> {
        let database = Database::connect_lazy(url, options)?;
        if let Err(error) = database.check().await {
            database.close().await;
            return Err(error);
        }
        Ok(database)
    }

    /// Checks whether the server can be used by opening and closing a connection with each URL. The pool itself waits
    /// for a server that refuses connections, because it may be restarting; this returns at once.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::NoPrimary`] (transient), [`Error::Rejected`], [`Error::OldServer`].
    pub async fn check(&self) -> Result<()> {
        let (main, direct) = (self.0.route.as_ref(), &self.0.direct);
        // Usually the direct route and the main route are the same.
        for route in main.into_iter().chain(main.is_none_or(|main| !Arc::ptr_eq(main, direct)).then_some(direct)) {
            route.scout().await?;
        }
        Ok(())
    }

    /// Creates a pool that connects on first use. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Config`] for an invalid URL or option.
    pub fn connect_lazy(url: &str, options: Options) -> Result<Database> {
        if options.max_connections == 0 {
            return Err(Error::config("max_connections", "must be at least 1, got 0"));
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

    /// Uses the application's own pool, which connects to the server directly. No session state is assumed or changed,
    /// except that cached plans are replaced from time to time.
    pub fn from_pool(pool: PgPool) -> Database {
        let direct = Address::of(&pool.connect_options());
        Database::around(pool, false, Some(direct))
    }

    /// Uses the application's own pool. `pooler` says whether it leads through a transaction-mode pooler; `listen_url`
    /// is then the direct URL for `LISTEN`.
    ///
    /// # Errors
    /// [`Error::Config`] for an invalid `listen_url`.
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

    /// The sqlx pool, for features that this type does not wrap.
    ///
    /// Do not run a statement with parameters on it through a transaction-mode pooler: sqlx prepares and executes it in
    /// two steps, which the pooler may send to two servers. [`Database::session`] and [`Database::begin`] keep them
    /// together.
    pub fn pool(&self) -> &PgPool {
        &self.0.pool
    }

    /// Whether sessions go through a transaction-mode pooler.
    pub fn has_pooler(&self) -> bool {
        self.0.pooler
    }

    /// A lazy pool of exactly one direct connection (to `listen_url` if set) that is never closed for idleness or age,
    /// for listening and for statements that must not wait for the main pool. `settings` are server settings of its
    /// session, such as `("synchronous_commit", "off")`. It follows the primary while this `Database` lives; close it
    /// when done.
    ///
    /// # Errors
    /// [`Error::Config`] naming `listen_url` if the database is reachable only through a pooler
    /// ([`Database::can_listen`] is false).
    pub fn dedicated(&self, application_name: &str, settings: &[(&str, &str)]) -> Result<PgPool> {
        let Some(startup) = &self.0.dedicated else {
            return Err(Error::config("listen_url", "required for LISTEN through a pooler: give a direct URL"));
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

    /// Whether `LISTEN` works: false if the database is reachable only through a pooler.
    pub fn can_listen(&self) -> bool {
        self.0.dedicated.is_some()
    }

    /// `user@host:port/database` of the direct address: a stable key that contains no secret.
    pub fn identity(&self) -> String {
        self.0.direct.address().identity()
    }

    /// Number of connections acquired from the pool so far. While it is unchanged, this process has sent no statement,
    /// so earlier reads are still current unless another process has written.
    pub fn activity(&self) -> u64 {
        self.0.activity.load(Ordering::Relaxed)
    }

    /// The same pool for monitoring statements: connections acquired through this handle do not count as
    /// [`activity`](Self::activity). Otherwise two observers that each read after activity would trigger each other
    /// forever.
    #[must_use]
    pub fn observer(&self) -> Database {
        Database(self.0.clone(), Counted::No)
    }

    /// Closes the pool and waits until its connections, including those in use, are closed.
    pub async fn close(&self) {
        self.0.pool.close().await;
    }
}

/// Shows the address, never the credentials.
impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("identity", &self.identity())
            .field("pooler", &self.0.pooler)
            .field("connections", &self.0.pool.size())
            .finish()
    }
}
