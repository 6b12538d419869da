//! The options of a provider and their defaults.

use std::time::Duration;

pub use reveille_wake::{AggressiveOn, Strategy};

/// How fetches wait for work.
///
/// Fields and defaults follow the long-polling design for duroxide; `strategy` and `aggressive_on` choose its variants.
/// Programs build it as a struct, as they do with the other providers, so it is not `#[non_exhaustive]`.
#[derive(Debug, Clone)]
pub struct LongPollConfig {
    /// Whether a fetch that finds nothing waits. If not, it returns at once and the provider does not listen.
    pub enabled: bool,
    /// How often waiters poll without a notification: the fallback for a lost one.
    pub fallback_poll_interval: Duration,
    /// The longest wait of a single fetch, whatever its `poll_timeout`.
    pub max_wait_time: Duration,
    /// How long before its due time a timer wakes a waiter; only with [`AggressiveOn::EveryWake`].
    pub timer_grace_period: Duration,
    /// The least duration of aggressive polling once it has begun.
    pub aggressive_poll_duration: Duration,
    /// Consecutive empty polls without an error before aggressive polling ends.
    pub aggressive_exit_threshold: u32,
    /// A woken waiter that has not polled after this time counts as a fault.
    pub notify_delivery_timeout: Duration,
    /// The interval of aggressive polling.
    pub aggressive_poll_interval: Duration,
    /// How waiters are woken: one poll for all of them, or one each.
    pub strategy: Strategy,
    /// What starts aggressive polling: only faults, or every wake-up.
    pub aggressive_on: AggressiveOn,
}

impl Default for LongPollConfig {
    fn default() -> Self {
        LongPollConfig {
            enabled: false,
            fallback_poll_interval: Duration::from_secs(300),
            max_wait_time: Duration::from_secs(30),
            timer_grace_period: Duration::from_millis(100),
            aggressive_poll_duration: Duration::from_secs(60),
            aggressive_exit_threshold: 5,
            notify_delivery_timeout: Duration::from_millis(100),
            aggressive_poll_interval: Duration::from_millis(100),
            strategy: Strategy::default(),
            aggressive_on: AggressiveOn::default(),
        }
    }
}

impl LongPollConfig {
    /// The defaults with long polling.
    pub fn enabled() -> LongPollConfig {
        LongPollConfig { enabled: true, ..LongPollConfig::default() }
    }

    pub(crate) fn engine(&self) -> reveille_wake::Options {
        reveille_wake::Options {
            strategy: self.strategy,
            aggressive_on: self.aggressive_on,
            listening: if self.enabled {
                reveille_wake::Listening::WherePossible
            } else {
                reveille_wake::Listening::Never
            },
            fallback_poll_interval: self.fallback_poll_interval,
            timer_grace_period: self.timer_grace_period,
            aggressive_poll_duration: self.aggressive_poll_duration,
            aggressive_exit_threshold: self.aggressive_exit_threshold,
            aggressive_poll_interval: self.aggressive_poll_interval,
            notify_delivery_timeout: self.notify_delivery_timeout,
            ..reveille_wake::Options::default()
        }
    }
}

/// Whether a provider migrates its schema at start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Migrations {
    /// Applies missing migrations. Any number of processes may start at once.
    #[default]
    Apply,
    /// Changes nothing; a missing migration is an error. For processes whose role may not change the schema.
    Verify,
}

/// The options of [`PostgresProvider::connect`](crate::PostgresProvider::connect).
///
/// ```
/// use reveille_durable::{LongPollConfig, Options};
///
/// let options = Options::default().schema("workflows").long_poll(LongPollConfig::enabled());
/// # assert_eq!(options.schema.as_deref(), Some("workflows"));
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// The schema; `None` means `public`. Any name that PostgreSQL accepts.
    pub schema: Option<String>,
    /// How fetches wait for work.
    pub long_poll: LongPollConfig,
    /// How the pool connects. Not used with an existing pool.
    pub pool: reveille_pg::Options,
    /// Whether to migrate the schema at start.
    pub migrations: Migrations,
    /// The size of the history cache in bytes; `None` means 64 MiB, zero disables it.
    pub history_cache_bytes: Option<usize>,
    /// How many acks may return before their commit, so that the runtime's slots go on while it is flushed; `None` means
    /// 64, zero means that every ack waits for its commit.
    pub pipelined_acks: Option<usize>,
    /// How long instances are kept after they completed or failed; `None` means forever. An instance is deleted with all
    /// its descendants; an instance with a parent is deleted with the parent.
    pub retention: Option<Duration>,
}

/// One method per field, with its name.
impl Options {
    /// Sets the schema.
    pub fn schema(mut self, schema: impl Into<String>) -> Options {
        self.schema = Some(schema.into());
        self
    }

    /// Sets how fetches wait for work.
    pub fn long_poll(mut self, long_poll: LongPollConfig) -> Options {
        self.long_poll = long_poll;
        self
    }

    /// Sets how the pool connects.
    pub fn pool(mut self, pool: reveille_pg::Options) -> Options {
        self.pool = pool;
        self
    }

    /// Sets whether to migrate the schema at start.
    pub fn migrations(mut self, migrations: Migrations) -> Options {
        self.migrations = migrations;
        self
    }

    /// Sets the size of the history cache in bytes; `None` is the default, zero disables it.
    pub fn history_cache_bytes(mut self, bytes: impl Into<Option<usize>>) -> Options {
        self.history_cache_bytes = bytes.into();
        self
    }

    /// Sets how many acks may return before their commit; `None` is the default, zero turns pipelining off.
    pub fn pipelined_acks(mut self, acks: impl Into<Option<usize>>) -> Options {
        self.pipelined_acks = acks.into();
        self
    }

    /// Sets how long instances are kept after they completed or failed; `None` means forever.
    pub fn retention(mut self, keep: impl Into<Option<Duration>>) -> Options {
        self.retention = keep.into();
        self
    }
}

/// The default of `history_cache_bytes`: some thousand histories of a hundred events.
pub(crate) const HISTORY_CACHE_BYTES: usize = 64 << 20;
