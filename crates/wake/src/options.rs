//! Everything that can be set about waiting, with its default and what it costs.

use std::time::Duration;

/// How waiters of a consumer are woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// Equal waiters are one group: one ring, one look for all of them.
    #[default]
    Competing,
    /// Every waiter is alone: one ring, one look each, `SKIP LOCKED` sorts it out. No known-empty, no polling mode, and a
    /// sleep never lasts longer than [`BROADCAST_CAP`].
    Broadcast,
}

/// The longest sleep under [`Strategy::Broadcast`], which has no other safety net.
pub const BROADCAST_CAP: Duration = Duration::from_secs(60);

/// What makes a consumer poll for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AggressiveOn {
    /// Only faults: the listener lost or refused, a look that failed or came late, a fallback that found work.
    #[default]
    Faults,
    /// Every ring, timer and fallback as well. After one message this costs `aggressive_poll_duration` of polling.
    EveryWake,
}

/// Whether notifications of other processes are listened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Listening {
    /// Listen if the database can be reached directly, poll otherwise.
    #[default]
    WherePossible,
    /// Never listen: poll at `aggressive_poll_interval` while anybody waits. For databases behind a transaction-mode
    /// pooler without a direct address.
    Never,
}

/// Options of a [`Wake`](crate::Wake). `Options::default()` is what a product should start with.
#[derive(Debug, Clone)]
pub struct Options {
    /// How waiters are woken.
    pub strategy: Strategy,
    /// What makes a consumer poll.
    pub aggressive_on: AggressiveOn,
    /// Whether to listen at all.
    pub listening: Listening,
    /// How often all groups of a consumer are looked at together although nothing rang.
    pub fallback_poll_interval: Duration,
    /// How much earlier than its due time a timer wakes, under [`AggressiveOn::EveryWake`] only.
    pub timer_grace_period: Duration,
    /// The least time of polling once it began.
    pub aggressive_poll_duration: Duration,
    /// Consecutive looks without error and without work that must have passed before polling ends.
    pub aggressive_exit_threshold: u32,
    /// The pace of polling.
    pub aggressive_poll_interval: Duration,
    /// A rung waiter that has not looked after this long is a fault.
    pub notify_delivery_timeout: Duration,
    /// Waiting intentions per consumer; beyond it a claim is refused with [`Error::Full`](crate::Error::Full).
    pub max_waiters: usize,
    /// Groups per consumer that are remembered; beyond it the one left longest is forgotten, and looks again.
    pub max_groups: usize,
    /// Looks of one consumer at a time; never more than half the pool has connections.
    pub concurrent_polls: usize,
    /// Whether groups that were rung look before those to which somebody merely came: a quarter of the looks is kept for them.
    pub wake_ups_first: bool,
    /// How long an idle listener may stay silent before it is asked whether it is still there.
    pub heartbeat_interval: Duration,
    /// How long it may take to answer that.
    pub heartbeat_deadline: Duration,
    /// How long a busy sender collects rings before it sends them together.
    pub notify_window: Duration,
    /// How long one look may take before it is given up and counts as failed.
    pub poll_timeout: Duration,
}

/// No interval is shorter than this: a clock without a pause would be a busy loop.
const SHORTEST: Duration = Duration::from_millis(1);
/// None is longer than this, far from where arithmetic on times ends.
pub(crate) const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

impl Options {
    /// The same options with every duration within reason.
    pub(crate) fn sane(mut self) -> Options {
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
