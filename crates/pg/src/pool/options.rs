//! Options of a pool.

use std::fmt;
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;

/// Prepared statements cached per connection. All products together have fewer statements; each costs the server some
/// kilobytes, and an evicted one costs a round trip to prepare again.
const STATEMENT_CACHE: usize = 256;

/// Connection options of a [`Database`](crate::Database).
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// Maximum number of connections. Default 10.
    pub max_connections: u32,
    /// Shown in `pg_stat_activity`; an `application_name` in the URL takes precedence. Default `reveille`.
    pub application_name: String,
    /// The server cancels a statement that runs longer than this. Default 30 s; `None` leaves the server's own setting.
    pub statement_timeout: Option<Duration>,
    /// The server cancels a statement that waits longer than this for a lock. Default 10 s; `None` leaves the server's
    /// own setting.
    pub lock_timeout: Option<Duration>,
    /// How long to wait for a connection before [`Error::Exhausted`](crate::Error::Exhausted). Default 10 s.
    pub acquire_timeout: Duration,
    /// Whether connections go through a transaction-mode pooler such as PgBouncer. If so, no settings are sent at
    /// connection start (poolers reject or ignore them, so both timeouts above are off: set them on the role instead),
    /// prepared statements are not cached, and every [`Session`](crate::Session) is one transaction. Default `false`.
    pub pooler: bool,
    /// A direct URL for `LISTEN`, which does not work through a pooler. `None` means the main URL; with `pooler`, it
    /// means that `LISTEN` is unavailable.
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

/// One method per field, with its name.
impl Options {
    /// Sets the maximum number of connections.
    pub fn max_connections(mut self, max: u32) -> Options {
        self.max_connections = max;
        self
    }

    /// Sets the name that `pg_stat_activity` shows.
    pub fn application_name(mut self, name: impl Into<String>) -> Options {
        self.application_name = name.into();
        self
    }

    /// Sets the longest duration of a statement; `None` leaves the server's own setting.
    pub fn statement_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Options {
        self.statement_timeout = timeout.into();
        self
    }

    /// Sets the longest wait of a statement for a lock; `None` leaves the server's own setting.
    pub fn lock_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Options {
        self.lock_timeout = timeout.into();
        self
    }

    /// Sets the longest wait for a connection of the pool.
    pub fn acquire_timeout(mut self, timeout: Duration) -> Options {
        self.acquire_timeout = timeout;
        self
    }

    /// Sets whether connections go through a transaction-mode pooler.
    pub fn pooler(mut self, pooler: bool) -> Options {
        self.pooler = pooler;
        self
    }

    /// Sets the direct URL for `LISTEN`.
    pub fn listen_url(mut self, url: impl Into<Option<String>>) -> Options {
        self.listen_url = url.into();
        self
    }
}

/// Omits the URL, which contains a password.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("max_connections", &self.max_connections)
            .field("application_name", &self.application_name)
            .field("statement_timeout", &self.statement_timeout)
            .field("lock_timeout", &self.lock_timeout)
            .field("acquire_timeout", &self.acquire_timeout)
            .field("pooler", &self.pooler)
            .field("listen_url", &self.listen_url.as_ref().map(|_| "…"))
            .finish()
    }
}

/// Settings sent at the start of every connection of one pool.
#[derive(Clone, Debug)]
pub(super) struct Startup {
    /// `None` keeps the name in the URL.
    pub(super) application_name: Option<String>,
    /// Server settings; later entries override earlier ones.
    pub(super) settings: Vec<(String, String)>,
    pub(super) pooler: bool,
}

impl Startup {
    /// The startup of the main pool.
    pub(super) fn of(options: &Options, is_named: bool) -> Startup {
        // Claims need each statement to see the rows that the previous one waited for.
        let mut settings = vec![("default_transaction_isolation".to_owned(), "read committed".to_owned())];
        // JIT compilation takes longer than any statement here: seconds on a busy machine.
        settings.push(("jit".to_owned(), "off".to_owned()));
        for (name, limit) in [("statement_timeout", options.statement_timeout), ("lock_timeout", options.lock_timeout)]
        {
            // Zero means "no limit" to the server, so the shortest possible limit is used instead.
            settings.extend(limit.map(|limit| (name.to_owned(), limit.as_millis().max(1).to_string())));
        }
        let application_name = (!is_named).then(|| options.application_name.clone());
        Startup { application_name, settings, pooler: options.pooler }
    }

    /// Statement logging is off: statements contain payloads, and the server logs slow ones.
    pub(super) fn apply(&self, options: &PgConnectOptions) -> PgConnectOptions {
        // Every supported server prints floats exactly by default, and old poolers reject this parameter.
        let mut options = options.clone().disable_statement_logging().extra_float_digits(None);
        if let Some(name) = &self.application_name {
            options = options.application_name(name);
        }
        if self.pooler {
            return options.statement_cache_capacity(0);
        }
        let settings = self.settings.iter().map(|(name, value)| (name, value));
        options.options(settings).statement_cache_capacity(STATEMENT_CACHE)
    }
}
