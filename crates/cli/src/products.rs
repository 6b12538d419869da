//! The products of this binary, and the wake engine that they share.
//!
//! Each product has its part of the schema, its routes, its health checks and its metrics. A new product is added here
//! and nowhere else in this crate.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use axum::Router;
use reveille_access::Tokens;
use reveille_durable::{Instances, PostgresProvider};
use reveille_flow::events::{HealthCheck, HealthStatus};
use reveille_flow::{EventDrivenOrchestrator, Flow};
use reveille_pg::{Component, Migrator, Schema};
use reveille_queue::Queues;
use reveille_wake::{Changes, ListenerState, Metric, ServerWatch, Wake};
use reveille_web::{Api, Needs};
use tokio::time::timeout;

use crate::http::{self, Check, Verdict};
use crate::overview::{self, History};
use crate::statistics::{self, Statistics};

/// How long pending notifications to other processes may take at shutdown: usually one round trip. Without a database
/// they are lost, which costs the other processes a poll.
const FLUSH_WITHIN: Duration = Duration::from_secs(2);

/// How long releasing claimed steps may take at shutdown: usually some round trips. Without a database they are due
/// again when their leases end.
const END_WITHIN: Duration = Duration::from_secs(2);

/// How long polls in progress may take at shutdown: enough for a slow database, not for a broker that hangs.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// The components of all products in the order of their dependencies. A shared component is listed once.
fn components(schema: &Schema) -> Vec<Component> {
    let mut components = PostgresProvider::components(schema);
    let further = Queues::components(schema).into_iter().chain(Flow::components(schema)).chain(Tokens::components());
    for component in further {
        if components.iter().all(|known| known.name != component.name) {
            components.push(component);
        }
    }
    components
}

/// Migrates `schema` for this binary.
pub(crate) fn migrator(schema: &Schema) -> Migrator {
    Migrator::new(schema, components(schema))
}

/// The metrics of all products.
pub(crate) fn metrics() -> impl Iterator<Item = &'static Metric> {
    reveille_wake::METRICS
        .iter()
        .chain(reveille_queue::METRICS)
        .chain(reveille_flow::METRICS)
        .chain(statistics::METRICS)
}

/// The options of the products.
pub(crate) struct Settings {
    pub(crate) queue: reveille_queue::Options,
    pub(crate) retention: reveille_queue::RetentionOptions,
    pub(crate) flow: reveille_flow::Options,
}

/// The running products, until they are stopped or dropped.
pub(crate) struct Products {
    tokens: Tokens,
    queues: Queues,
    _retention_task: reveille_queue::Housekeeping,
    flow: Flow,
    orchestrations: reveille_durable::Watch,
    instances: Instances,
    orchestrator: Arc<EventDrivenOrchestrator>,
    overview: overview::Sources,
}

impl Products {
    /// Starts all products. Does not wait for the database.
    pub(crate) fn start(database: &reveille_pg::Database, schema: &Schema, settings: Settings) -> Self {
        // The products share its dispatcher and its listener.
        let wake = Wake::start(database, schema, settings.queue.wake.clone());
        let orchestrations = reveille_durable::Watch::start(database, schema, settings.queue.wake.clone());
        let tokens = Tokens::start(database, schema, settings.queue.wake.clone());
        let options = settings.queue.wake.clone();
        let instances = Instances::start(database, schema, options, orchestrations.clone());
        let queues = Queues::start(database, schema, settings.queue);
        if let Some(key) = queues.encryption_keys().first() {
            tracing::info!(%key, keys = queues.encryption_keys().len(), "encrypting queues with this key");
        }
        let _retention_task = queues.start_housekeeping(&settings.retention);
        let flow = Flow::start(database, schema, settings.flow);
        let orchestrator = Arc::new(flow.orchestrate());
        let overview = overview::Sources {
            changes: changes(&wake),
            server: ServerWatch::new(&wake),
            history: History::start(&wake, &queues),
            queues: queues.clone(),
            flow: flow.clone(),
            orchestrations: orchestrations.clone(),
            wake,
        };
        Self { tokens, queues, _retention_task, flow, orchestrations, instances, orchestrator, overview }
    }

    /// Ends all waits with a response and rejects further ones, so that requests in progress can finish.
    pub(crate) async fn close(&self) {
        let products = async { tokio::join!(self.queues.close(), self.flow.close(), self.instances.close()) };
        let closed = async { tokio::join!(products, self.tokens.close()) };
        if timeout(CLOSE_WITHIN, closed).await.is_err() {
            tracing::warn!("a poll did not end in time: what it claims is due again when its lease ends");
        }
    }

    /// Stops all products while the database is still available: claimed steps are released, then pending notifications
    /// are sent.
    pub(crate) async fn stop(self) {
        let ended = async {
            self.orchestrator.shutdown().await;
            self.flow.close().await;
        };
        if timeout(END_WITHIN, ended).await.is_err() {
            tracing::warn!("claimed steps were not released in time: they are due again when their leases end");
        }
        let flushed = async { tokio::join!(self.queues.flush(), self.flow.flush(), self.instances.flush()) };
        if timeout(FLUSH_WITHIN, flushed).await.is_err() {
            tracing::warn!("pending notifications were not sent in time: other processes find the work by polling");
        }
    }

    /// The routes of the products, and the document that describes all routes.
    pub(crate) fn routes(&self, max_body_bytes: usize) -> Router {
        self.api().into_router(max_body_bytes)
    }

    fn api(&self) -> Api {
        Api::document_only(http::head(), Needs::default())
            .merge(reveille_queue::http::api(self.queues.clone()))
            .merge(reveille_flow::http::api(self.flow.clone()))
            .merge(reveille_durable::http::api(self.instances.clone()))
            .merge(reveille_access::http::api(self.tokens.clone()))
            .merge(overview::api(self.overview.clone()))
            .merge(Api::document_only(http::document(), http::needs()))
    }

    /// The tokens of clients.
    pub(crate) fn tokens(&self) -> Tokens {
        self.tokens.clone()
    }

    /// The change signal of the products.
    pub(crate) fn changes(&self) -> Changes {
        self.overview.changes.clone()
    }

    /// The statistics of the products, with samples of their own for the `top` largest of each kind.
    pub(crate) fn statistics(&self, database: &reveille_pg::Database, top: u32) -> Statistics {
        let (queues, flow) = (self.queues.clone(), self.flow.clone());
        Statistics { database: database.clone(), queues, flow, orchestrations: self.orchestrations.clone(), top }
    }

    /// The health checks of the products.
    pub(crate) fn checks(&self) -> Vec<Arc<dyn Check>> {
        // All products of a process share one listener.
        vec![
            Arc::new(ListenerCheck(self.queues.clone())),
            Arc::new(EncryptionCheck(self.queues.clone())),
            Arc::new(FlowCheck(self.orchestrator.clone())),
        ]
    }
}

/// The change signal of the products. They share a pool and a listener, so one counter stands for all of them.
fn changes(wake: &Wake) -> Changes {
    let counter = |wake: Wake| Box::new(move || wake.activity()) as Box<dyn Fn() -> u64 + Send + Sync>;
    Changes::of(["queue", "flow", "durable"].map(|product| (product, counter(wake.clone()))))
}

/// Whether notifications are received. Without them the process polls, so it is degraded and stays ready.
struct ListenerCheck(Queues);

impl Check for ListenerCheck {
    fn name(&self) -> &'static str {
        "wake"
    }

    fn check(&self) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        Box::pin(async { verdict_of(&self.0.health().listener) })
    }
}

/// Whether encrypted queues can be written and read. Other queues work, so the process stays ready.
struct EncryptionCheck(Queues);

impl Check for EncryptionCheck {
    fn name(&self) -> &'static str {
        "encryption"
    }

    fn check(&self) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        Box::pin(async { self.0.encryption_failure().map_or(Verdict::Good, Verdict::Degraded) })
    }
}

/// Whether the orchestrator of tasks is healthy. Otherwise polling finds the work, so the process stays ready.
struct FlowCheck(Arc<EventDrivenOrchestrator>);

impl Check for FlowCheck {
    fn name(&self) -> &'static str {
        "flow"
    }

    fn check(&self) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        Box::pin(async { verdict_of_checks(&self.0.check()) })
    }
}

fn verdict_of_checks(status: &HealthStatus) -> Verdict {
    // The listener has a check of its own.
    let failed = |check: &&HealthCheck| !check.healthy && check.name != "listeners_connected";
    let failed: Vec<String> =
        status.checks.iter().filter(failed).map(|check| format!("{}: {}", check.name, check.detail)).collect();
    if failed.is_empty() { Verdict::Good } else { Verdict::Degraded(failed.join("; ")) }
}

fn verdict_of(listener: &ListenerState) -> Verdict {
    let degraded = |why: &str| Verdict::Degraded(format!("{why}; polling instead"));
    match listener {
        ListenerState::Connected => Verdict::Good,
        ListenerState::Off => degraded("not listening: there is no direct connection to the database"),
        ListenerState::Connecting => degraded("the listener is not connected yet"),
        // The reason may be a text of the database, which must not reach clients.
        ListenerState::Lost { .. } => degraded("the listener has lost its connection"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disconnected listener degrades the process, which stays ready, and no text of the database is reported.
    #[test]
    fn a_disconnected_listener_degrades_without_details() {
        assert_eq!(verdict_of(&ListenerState::Connected), Verdict::Good);
        let lost = ListenerState::Lost { reason: "relation \"secret\" does not exist".into() };
        for state in [ListenerState::Off, ListenerState::Connecting, lost] {
            let Verdict::Degraded(reason) = verdict_of(&state) else { panic!("{state:?} is not degraded") };
            assert!(reason.contains("polling") && !reason.contains("secret"), "{reason}");
        }
    }

    /// A failed check of the orchestrator degrades the process with its name and reason; that of the listener is
    /// reported by the listener's own check only.
    #[test]
    fn an_unhealthy_orchestrator_degrades() {
        let check = |name, healthy| HealthCheck { name, healthy, detail: "so it is".to_owned() };
        let of = |checks| verdict_of_checks(&HealthStatus::aggregate(checks));
        assert_eq!(of(vec![check("fallback_poller", true), check("listeners_connected", false)]), Verdict::Good);
        let ill = of(vec![check("fallback_poller", false), check("coordinators_healthy", false)]);
        let reason = "fallback_poller: so it is; coordinators_healthy: so it is";
        assert_eq!(ill, Verdict::Degraded(reason.to_owned()));
    }
}
