//! The answer of `GET /v1/wake`.

use reveille_wake::{LATENCY_BOUNDS_US, ListenerState};
use serde::Serialize;
use utoipa::ToSchema;

use super::Sources;
use super::answer::listener;

/// How many groups of each consumer are listed.
const GROUPS: usize = 200;

/// What the wake engine of this server does. Everything is known in memory.
#[derive(Serialize, ToSchema)]
#[schema(as = WakeEngine)]
pub(super) struct Waking {
    /// `connected`, `connecting`, `off` or `lost`.
    listener: &'static str,
    /// Why it is not connected.
    reason: Option<&'static str>,
    /// Statements that this server has sent since its start, except for monitoring.
    statements: u64,
    /// A number that grows with every statement and every notification. While it stays the same, nothing happens.
    activity: u64,
    consumers: Vec<Consumer>,
    /// Groups of waiters, longest waiting first.
    groups: Vec<Group>,
    /// How long after a wake-up its work was there.
    latency: Vec<Bucket>,
}

/// What claims one kind of work.
#[derive(Serialize, ToSchema)]
#[schema(as = WakeConsumer)]
struct Consumer {
    name: String,
    /// `notify`: it sleeps until a wake-up; `poll`: it polls at an interval, because wake-ups may be missing.
    mode: &'static str,
    waiters: u64,
    groups: u64,
    /// Groups for which no poll runs and none is about to.
    asleep: u64,
    /// Claim statements sent.
    polls: u64,
    /// Those that found nothing.
    empty_polls: u64,
    /// Those that failed.
    failed_polls: u64,
    /// Statements that searched for due work of all sleeping groups.
    sweeps: u64,
    /// Items claimed.
    items: u64,
}

/// Waiters for the same work.
#[derive(Serialize, ToSchema)]
#[schema(as = WakeGroup)]
struct Group {
    consumer: String,
    /// What they wait for.
    what: String,
    waiters: u64,
    waited_seconds: f64,
    /// `asleep`, `polling` or `failing`.
    state: &'static str,
    /// When the next due time or retry ends the sleep; null: only a wake-up does.
    next_poll_seconds: Option<f64>,
}

/// A part of a histogram.
#[derive(Serialize, ToSchema)]
#[schema(as = WakeLatency)]
struct Bucket {
    /// Up to so many milliseconds; null: more than the one before.
    le_ms: Option<f64>,
    count: u64,
}

impl Waking {
    pub(super) fn of(sources: &Sources) -> Waking {
        let health = sources.wake.health();
        let state = match health.listener {
            ListenerState::Connected => "connected",
            ListenerState::Connecting => "connecting",
            ListenerState::Off => "off",
            ListenerState::Lost { .. } => "lost",
        };
        let mut latency = [0; LATENCY_BOUNDS_US.len() + 1];
        for consumer in &health.consumers {
            for (sum, count) in latency.iter_mut().zip(consumer.latency) {
                *sum += count;
            }
        }
        let bounds = LATENCY_BOUNDS_US.iter().map(|us| Some(*us as f64 / 1_000.0)).chain([None]);
        let mut groups: Vec<Group> = sources.wake.waiting(GROUPS).into_iter().map(Group::of).collect();
        groups.sort_by(|one, other| other.waited_seconds.total_cmp(&one.waited_seconds));
        Waking {
            listener: state,
            reason: listener(&health.listener),
            statements: sources.wake.statements(),
            activity: sources.wake.activity(),
            consumers: health.consumers.iter().map(Consumer::of).collect(),
            groups,
            latency: bounds.zip(latency).map(|(le_ms, count)| Bucket { le_ms, count }).collect(),
        }
    }
}

impl Consumer {
    fn of(health: &reveille_wake::ConsumerHealth) -> Consumer {
        Consumer {
            name: health.name.to_string(),
            mode: if health.polling { "poll" } else { "notify" },
            waiters: health.waiters as u64,
            groups: health.groups as u64,
            asleep: health.asleep as u64,
            polls: health.counts.polls,
            empty_polls: health.counts.empty_polls,
            failed_polls: health.counts.failed_polls,
            sweeps: health.counts.sweeps,
            items: health.counts.items,
        }
    }
}

impl Group {
    fn of(group: reveille_wake::WaitingGroup) -> Group {
        Group {
            consumer: group.consumer.to_string(),
            what: group.what,
            waiters: group.waiters as u64,
            waited_seconds: group.waited.as_secs_f64(),
            state: match (group.failing, group.asleep) {
                (true, _) => "failing",
                (false, true) => "asleep",
                (false, false) => "polling",
            },
            next_poll_seconds: group.next_poll.map(|next| next.as_secs_f64()),
        }
    }
}
