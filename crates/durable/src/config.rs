//! Everything that can be set about a provider, with its default.

use std::time::Duration;

pub use wake::{AggressiveOn, Strategy};

/// How fetches wait for work.
///
/// The fields and defaults are those of the long-polling design for duroxide; `strategy` and `aggressive_on` choose between its variants.
#[derive(Debug, Clone)]
pub struct LongPollConfig {
    /// Whether a fetch that finds nothing waits. Without it a fetch returns at once and nothing listens.
    pub enabled: bool,
    /// How often everybody looks although nothing rang: the net under a lost notification.
    pub fallback_poll_interval: Duration,
    /// The longest a single fetch waits, whatever `poll_timeout` it was given.
    pub max_wait_time: Duration,
    /// How much earlier than its due time a timer wakes; only under [`AggressiveOn::EveryWake`].
    pub timer_grace_period: Duration,
    /// The least time of polling once it began.
    pub aggressive_poll_duration: Duration,
    /// Consecutive empty looks without error that must have passed before polling ends.
    pub aggressive_exit_threshold: u32,
    /// A rung waiter that has not looked after this long is a fault.
    pub notify_delivery_timeout: Duration,
    /// The pace of polling.
    pub aggressive_poll_interval: Duration,
    /// How waiters are woken: one look for all of them, or one each.
    pub strategy: Strategy,
    /// What makes a provider poll for a while: only faults, or every wake.
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
    /// The defaults, waiting.
    pub fn enabled() -> LongPollConfig {
        LongPollConfig { enabled: true, ..LongPollConfig::default() }
    }

    pub(crate) fn engine(&self) -> wake::Options {
        wake::Options {
            strategy: self.strategy,
            aggressive_on: self.aggressive_on,
            listening: if self.enabled { wake::Listening::WherePossible } else { wake::Listening::Never },
            fallback_poll_interval: self.fallback_poll_interval,
            timer_grace_period: self.timer_grace_period,
            aggressive_poll_duration: self.aggressive_poll_duration,
            aggressive_exit_threshold: self.aggressive_exit_threshold,
            aggressive_poll_interval: self.aggressive_poll_interval,
            notify_delivery_timeout: self.notify_delivery_timeout,
            ..wake::Options::default()
        }
    }
}

/// What happens to the schema when a provider starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Migrations {
    /// What is missing is applied, whoever starts first.
    #[default]
    Apply,
    /// Nothing is changed; a schema that is behind is an error. For processes whose role may not change it.
    Verify,
}

/// Everything beside the URL. [`PostgresProvider::connect`](crate::PostgresProvider::connect) takes it.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The schema; `None` means `public`. Any name PostgreSQL can keep.
    pub schema: Option<String>,
    /// How fetches wait for work.
    pub long_poll: LongPollConfig,
    /// How the pool connects. Not used with an existing pool.
    pub pool: pg::Options,
    /// What happens to the schema at start.
    pub migrations: Migrations,
    /// How many bytes of histories are remembered; `None` means 64 MiB, zero none.
    pub history_cache_bytes: Option<usize>,
    /// How long instances are kept after they ended, completed or failed; `None` means for ever. An instance goes with all below it; one that has a parent goes with that.
    pub retention: Option<Duration>,
}

/// The default of `history_cache_bytes`: some thousand histories of some hundred events.
pub(crate) const HISTORY_CACHE_BYTES: usize = 64 << 20;
