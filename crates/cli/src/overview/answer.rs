//! The answer of `GET /v1/overview`.

use std::time::Duration;

use reveille_wake::ListenerState;
use serde::Serialize;
use utoipa::ToSchema;

use super::attention::{self, Attention, Seen};
use super::history::{EVERY, Series};
use super::{Sources, TOP};

/// The state of everything that this server knows.
#[derive(Serialize, ToSchema)]
#[schema(as = ServerOverview)]
pub(super) struct Overview {
    version: &'static str,
    /// What needs attention, the most urgent first; empty if all is well.
    attention: Vec<Attention>,
    /// What waits longest, by product.
    waiting: Vec<Waiting>,
    /// How much there is, by product.
    amounts: Vec<Amount>,
    #[schema(inline)]
    rates: Rates,
}

/// The oldest waiting work of one kind.
#[derive(Serialize, ToSchema)]
#[schema(as = OverviewWaiting)]
struct Waiting {
    /// `queue`, `flow` or `durable`.
    product: &'static str,
    /// What waits.
    what: String,
    /// How much of it waits.
    amount: Option<u64>,
    /// For how long the oldest has waited.
    oldest_seconds: f64,
    /// The page of the console that shows it, relative to the console.
    link: String,
}

/// A number of things.
#[derive(Serialize, ToSchema)]
#[schema(as = OverviewAmount)]
struct Amount {
    /// `queue`, `flow` or `durable`.
    product: &'static str,
    what: String,
    amount: u64,
}

/// Quantities over the last half hour, oldest first; `null` where nothing is known.
#[derive(Serialize, ToSchema)]
struct Rates {
    /// The time between two values.
    every_seconds: f64,
    /// Messages pushed through this server, per second.
    pushed: Series,
    /// Messages acknowledged through this server, per second.
    acked: Series,
    /// Messages that failed, per second.
    failed: Series,
    /// Steps of tasks claimed from this server, per second.
    steps: Series,
    /// Statements that this server has sent, per second.
    statements: Series,
    /// Half of the wake-ups brought their work within this time, in milliseconds.
    wake_p50_ms: Series,
    /// 99 % of them did.
    wake_p99_ms: Series,
}

impl Overview {
    pub(super) async fn of(sources: &Sources) -> Overview {
        let (queues, flow, durable, server) = tokio::join!(
            sources.queues.figures(TOP),
            sources.flow.figures(TOP),
            sources.orchestrations.figures(),
            sources.server.state(),
        );
        let listener = listener(&sources.wake.health().listener);
        let mut seen = Seen { listener, server: server.map(|read| *read.value), ..Seen::default() };
        let (mut waiting, mut amounts) = (Vec::new(), Vec::new());
        let mut amount =
            |product, what: &str, amount: u64| amounts.push(Amount { product, what: what.to_owned(), amount });
        if let Some(read) = queues {
            let later = |oldest: Option<Duration>| oldest.map(|oldest| oldest + read.age);
            for one in &read.value.groups {
                let Some((queue, group)) = &one.group else { continue };
                let oldest = later(one.oldest);
                if let Some(oldest) = oldest.filter(|_| one.lag > 0) {
                    waiting.push(Waiting {
                        product: "queue",
                        what: format!("{queue}: {}", attention::named(group)),
                        amount: Some(one.lag),
                        oldest_seconds: oldest.as_secs_f64(),
                        link: format!("queues/{}?tab=groups", attention::encoded(queue)),
                    });
                }
                seen.groups.push((queue.clone(), group.clone(), one.lag, oldest));
            }
            let dead = read.value.queues.iter().filter(|one| one.dead_letters > 0);
            seen.dead_letters = dead.filter_map(|one| Some((one.queue.clone()?, one.dead_letters))).collect();
            amount("queue", "queues", read.value.queues.iter().map(|one| one.queues).sum());
            amount("queue", "messages waiting", read.value.queues.iter().map(|one| one.depth).sum());
            amount("queue", "dead letters", read.value.queues.iter().map(|one| one.dead_letters).sum());
        }
        if let Some(read) = flow {
            let named = |namespace: &Option<String>| namespace.clone().unwrap_or_else(|| "other namespaces".to_owned());
            for (namespace, oldest) in &read.value.oldest_ready {
                let (namespace, oldest) = (named(namespace), *oldest + read.age);
                waiting.push(Waiting {
                    product: "flow",
                    what: format!("ready steps of {namespace}"),
                    amount: None,
                    oldest_seconds: oldest.as_secs_f64(),
                    link: format!("tasks?namespace={}", attention::encoded(&namespace)),
                });
                seen.ready_steps.push((namespace, oldest));
            }
            let failed = read.value.failed.iter().filter(|(_, amount)| *amount > 0);
            seen.failed_tasks = failed.map(|(namespace, amount)| (named(namespace), *amount)).collect();
            seen.investigations = read.value.investigations;
            let of = |state: &str| read.value.tasks.iter().filter(|one| one.state == state).map(|one| one.amount).sum();
            amount("flow", "open tasks", of("open"));
            amount("flow", "failed tasks", of("error"));
            let running = read.value.steps.iter().filter(|one| one.state == "in_progress").map(|one| one.amount);
            amount("flow", "steps in progress", running.sum());
        }
        if let Some(read) = durable {
            let later = |oldest: Option<Duration>| oldest.map(|oldest| oldest + read.age);
            seen.turns = (read.value.messages, later(read.value.oldest_message));
            seen.activities = (read.value.activities_waiting, later(read.value.oldest_activity));
            for ((count, oldest), what) in [(seen.turns, "messages to orchestrations"), (seen.activities, "activities")]
            {
                let Some(oldest) = oldest else { continue };
                let (product, what, link) = ("durable", what.to_owned(), "durable".to_owned());
                waiting.push(Waiting {
                    product,
                    what,
                    amount: Some(count),
                    oldest_seconds: oldest.as_secs_f64(),
                    link,
                });
            }
            for (status, count) in &read.value.instances {
                amount("durable", &format!("instances {}", status.to_lowercase()), *count);
            }
        }
        waiting.sort_by(|one, other| other.oldest_seconds.total_cmp(&one.oldest_seconds));
        waiting.truncate(TOP as usize);
        let history = &sources.history;
        let rates = Rates {
            every_seconds: EVERY.as_secs_f64(),
            pushed: history.rate(|sample| sample.pushed),
            acked: history.rate(|sample| sample.acked),
            failed: history.rate(|sample| sample.failed),
            steps: history.rate(|sample| sample.steps),
            statements: history.rate(|sample| sample.statements),
            wake_p50_ms: history.latency(0.5),
            wake_p99_ms: history.latency(0.99),
        };
        Overview { version: env!("CARGO_PKG_VERSION"), attention: attention::of(&seen), waiting, amounts, rates }
    }
}

/// Why notifications are not received. A reason of the database must not reach clients.
pub(super) fn listener(state: &ListenerState) -> Option<&'static str> {
    match state {
        ListenerState::Connected => None,
        ListenerState::Off => Some("there is no direct connection to the database to listen on"),
        ListenerState::Connecting => Some("the listener is not connected yet"),
        ListenerState::Lost { .. } => Some("the listener has lost its connection"),
    }
}
