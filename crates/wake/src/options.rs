//! The options of the engine, with their defaults.

use std::time::Duration;

/// How the waiters of a consumer are woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Strategy {
    /// Equal waiters are one group: one wake-up, one poll for all of them.
    #[default]
    Competing,
    /// Every waiter is a group of its own: one wake-up, one poll each, and `SKIP LOCKED` distributes the rows. No group
    /// is known to be empty, polling is never aggressive, and a sleep never lasts longer than a minute, because there
    /// is no fallback.
    Broadcast,
}

/// The longest sleep under [`Strategy::Broadcast`], which has no fallback.
pub(crate) const BROADCAST_CAP: Duration = Duration::from_secs(60);

/// What makes a consumer poll aggressively for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum AggressiveOn {
    /// Only faults: the listener lost or refused, a poll that failed or was late, a fallback that found work.
    #[default]
    Faults,
    /// Every wake-up, timer and fallback as well. One message then costs `aggressive_poll_duration` of polling.
    EveryWake,
}

/// Whether to listen for notifications of other processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Listening {
    /// Listen if the database can be reached directly, poll otherwise.
    #[default]
    WherePossible,
    /// Never listen: poll at `aggressive_poll_interval` while there are waiters. For databases behind a
    /// transaction-mode pooler without a direct address.
    Never,
}

/// Options of a [`Wake`](crate::Wake). A product should start with `Options::default()`.
#[derive(Debug, Clone)]
pub struct Options {
    /// How waiters are woken.
    pub strategy: Strategy,
    /// What makes a consumer poll aggressively.
    pub aggressive_on: AggressiveOn,
    /// Whether to listen at all.
    pub listening: Listening,
    /// How often all sleeping groups of a consumer are checked together without a wake-up.
    pub fallback_poll_interval: Duration,
    /// How much earlier than its due time a timer wakes, under [`AggressiveOn::EveryWake`] only.
    pub timer_grace_period: Duration,
    /// How long aggressive polling lasts at least.
    pub aggressive_poll_duration: Duration,
    /// Consecutive polls without error and without work before aggressive polling ends.
    pub aggressive_exit_threshold: u32,
    /// The interval of aggressive polling.
    pub aggressive_poll_interval: Duration,
    /// If a group does not poll within this time after a wake-up, that is a fault.
    pub notify_delivery_timeout: Duration,
    /// Waiters per consumer; beyond it a claim is rejected with [`Error::Full`](crate::Error::Full).
    pub max_waiters: usize,
    /// Groups per consumer; beyond it the one without waiters for the longest time is forgotten, and has to poll again.
    pub max_groups: usize,
    /// Concurrent polls of one consumer; at most half the connections of the pool.
    pub concurrent_polls: usize,
    /// Whether a quarter of the concurrent polls is reserved for groups with a wake-up, so that polls for new waiters
    /// do not delay them.
    pub wake_ups_first: bool,
    /// How long the listener may receive nothing before a heartbeat is sent.
    pub heartbeat_interval: Duration,
    /// How long the server may take to answer a heartbeat.
    pub heartbeat_deadline: Duration,
    /// How long the notifier collects notifications of busy channels before it sends them together.
    pub notify_window: Duration,
    /// How long one poll may take before it is cancelled and counts as failed.
    pub poll_timeout: Duration,
}

/// The shortest interval: without a pause a timer would be a busy loop.
const SHORTEST: Duration = Duration::from_millis(1);
/// The longest duration, far from overflow.
pub(crate) const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

impl Options {
    /// The same options with every duration limited to the supported range.
    pub(crate) fn clamped(mut self) -> Options {
        for pause in [
            &mut self.fallback_poll_interval,
            &mut self.aggressive_poll_interval,
            &mut self.notify_delivery_timeout,
            &mut self.heartbeat_interval,
            &mut self.heartbeat_deadline,
            &mut self.poll_timeout,
        ] {
            *pause = (*pause).clamp(SHORTEST, LONGEST);
        }
        for length in [&mut self.timer_grace_period, &mut self.aggressive_poll_duration, &mut self.notify_window] {
            *length = (*length).min(LONGEST);
        }
        self
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            strategy: Strategy::default(),
            aggressive_on: AggressiveOn::default(),
            listening: Listening::default(),
            fallback_poll_interval: Duration::from_secs(300),
            timer_grace_period: Duration::from_millis(100),
            aggressive_poll_duration: Duration::from_secs(60),
            aggressive_exit_threshold: 5,
            aggressive_poll_interval: Duration::from_millis(100),
            notify_delivery_timeout: Duration::from_millis(100),
            max_waiters: 10_000,
            max_groups: 20_000,
            concurrent_polls: 16,
            wake_ups_first: false,
            heartbeat_interval: Duration::from_secs(15),
            heartbeat_deadline: Duration::from_secs(5),
            notify_window: Duration::from_millis(5),
            poll_timeout: Duration::from_secs(30),
        }
    }
}
