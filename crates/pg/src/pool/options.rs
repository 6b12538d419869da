//! How a pool is set up.

use std::fmt;
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;

/// Prepared statements kept per connection. All products together have fewer statements than this; each costs the server
/// some kilobytes, and an evicted one costs a round trip to prepare again.
const STATEMENT_CACHE: usize = 256;

/// How a [`Database`](crate::Database) connects.
#[derive(Clone)]
pub struct Options {
    /// How many connections the pool opens at most. Default 10.
    pub max_connections: u32,
    /// What the server shows for them in `pg_stat_activity`; an `application_name` in the URL goes before it. Default
    /// `reveille`.
    pub application_name: String,
    /// The server cancels a statement that runs longer than this. Default 30 s; `None` leaves the server's own setting.
    pub statement_timeout: Option<Duration>,
    /// The server cancels a statement that waits longer than this for a lock. Default 10 s; `None` leaves the server's own
    /// setting.
    pub lock_timeout: Option<Duration>,
    /// How long to wait for a connection before [`Error::Exhausted`](crate::Error::Exhausted). Default 10 s.
    pub acquire_timeout: Duration,
    /// Whether a transaction-mode pooler such as PgBouncer is between. Then nothing is sent at connection start (poolers
    /// refuse or ignore it, so both timeouts above are off: set them on the role instead), prepared statements are not
    /// kept, and every [`Session`](crate::Session) is one transaction. Default `false`.
    pub pooler: bool,
    /// A URL that leads to the server directly, for `LISTEN`, which a pooler cannot carry. `None` means the main URL, or,
    /// with `pooler`, that there is no listening.
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

/// Without the URL, which holds a password.
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

/// What every connection of one pool says when it starts.
#[derive(Clone, Debug)]
pub(super) struct Startup {
    /// `None` keeps what the URL says.
    pub(super) application_name: Option<String>,
    /// Server settings, later ones winning.
    pub(super) settings: Vec<(String, String)>,
    pub(super) pooler: bool,
}

impl Startup {
    /// The startup of the main pool.
    pub(super) fn of(options: &Options, is_named: bool) -> Startup {
        // Claims rely on each statement seeing what the one before it waited for.
        let mut settings = vec![("default_transaction_isolation".to_owned(), "read committed".to_owned())];
        // To compile a plan takes longer than any statement here: seconds on a busy machine, for a list of tasks.
        settings.push(("jit".to_owned(), "off".to_owned()));
        for (name, limit) in [("statement_timeout", options.statement_timeout), ("lock_timeout", options.lock_timeout)]
        {
            // Zero would mean "no limit" to the server; the shortest limit there is comes closest to what was asked.
            settings.extend(limit.map(|limit| (name.to_owned(), limit.as_millis().max(1).to_string())));
        }
        let application_name = (!is_named).then(|| options.application_name.clone());
        Startup { application_name, settings, pooler: options.pooler }
    }

    /// Statements are never logged: they would carry payloads, and the server's own log is the place to look for slow ones.
    pub(super) fn apply(&self, options: &PgConnectOptions) -> PgConnectOptions {
        // Every supported server prints floats exactly by default, and old poolers refuse this parameter.
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
