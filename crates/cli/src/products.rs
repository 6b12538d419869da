//! What this binary is made of: the wake engine and the products on it.
//!
//! Each brings its part of the schema, its routes, its health and its metrics. A product is added here and nowhere else in
//! this crate.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use axum::Router;
use durable::PostgresProvider;
use flow::event_driven::{HealthCheck, HealthStatus};
use flow::{EventDrivenOrchestrator, Flow};
use pg::{Component, Migrator, Schema};
use queue::Queues;
use tokio::time::timeout;
use wake::{ListenerState, Metric};
use web::Face;

use crate::figures::{self, Figures};
use crate::http::{self, Check, Verdict};

/// How long rings for other processes may take to be sent at the end: a round trip as a rule. Without a database to send them
/// to they are lost, which costs the others a poll.
const FLUSH_WITHIN: Duration = Duration::from_secs(2);

/// How long what was begun may take to go back at the end: some round trips as a rule. Without a database it is due again by
/// itself.
const END_WITHIN: Duration = Duration::from_secs(2);

/// How long a look that is under way may take to end: as long as a slow database needs, and not as long as a broker that hangs.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// Every part's tables, in the order in which they depend on each other. What several products stand on is there once.
fn components(schema: &Schema) -> Vec<Component> {
    let mut components = PostgresProvider::components(schema);
    for component in Queues::components(schema).into_iter().chain(Flow::components(schema)) {
        if components.iter().all(|known| known.name != component.name) {
            components.push(component);
        }
    }
    components
}

/// What brings `schema` up to date for this binary.
pub(crate) fn migrator(schema: &Schema) -> Migrator {
    Migrator::new(schema, components(schema))
}

/// The metrics of every part.
pub(crate) fn metrics() -> impl Iterator<Item = &'static Metric> {
    wake::METRICS.iter().chain(queue::METRICS).chain(flow::METRICS).chain(figures::METRICS)
}

/// How the products are set up.
pub(crate) struct Settings {
    pub(crate) queue: queue::Options,
    pub(crate) retention: queue::RetentionOptions,
    pub(crate) flow: flow::Options,
}

/// Everything that runs, until it is stopped or dropped.
pub(crate) struct Products {
    queues: Queues,
    _house: queue::Housekeeping,
    flow: Flow,
    orchestrations: durable::Watch,
    orchestrator: Arc<EventDrivenOrchestrator>,
}

impl Products {
    /// Starts everything. Returns at once: what needs the database waits for it by itself.
    pub(crate) fn start(database: &pg::Database, schema: &Schema, settings: Settings) -> Self {
        let orchestrations = durable::Watch::start(database, schema, settings.queue.wake.clone());
        let queues = Queues::start(database, schema, settings.queue);
        if let Some(key) = queues.encryption_keys().first() {
            tracing::info!(%key, keys = queues.encryption_keys().len(), "encrypted queues are written with this key");
        }
        let _house = queues.start_housekeeping(&settings.retention);
        let flow = Flow::start(database, schema, settings.flow);
        let orchestrator = Arc::new(flow.orchestrate());
        Self { queues, _house, flow, orchestrations, orchestrator }
    }

    /// Answers whoever waits, and refuses further waits: what follows can then be waited for.
    pub(crate) async fn close(&self) {
        let closed = async { tokio::join!(self.queues.close(), self.flow.close()) };
        if timeout(CLOSE_WITHIN, closed).await.is_err() {
            tracing::warn!("a look did not end in time: what it claims is due again when its lease ends");
        }
    }

    /// Ends everything in order, while the database can still be used: what nobody has sent or done goes back, then what was
    /// committed is rung for.
    pub(crate) async fn stop(self) {
        let ended = async {
            self.orchestrator.shutdown().await;
            self.flow.close().await;
        };
        if timeout(END_WITHIN, ended).await.is_err() {
            tracing::warn!("steps could not be given back in time: they are due again when their leases end");
        }
        let flushed = async { tokio::join!(self.queues.flush(), self.flow.flush()) };
        if timeout(FLUSH_WITHIN, flushed).await.is_err() {
            tracing::warn!("other processes could not be told of the last work in time: they find it by themselves");
        }
    }

    /// The routes of the products, and the document that describes them and the server's own.
    pub(crate) fn routes(&self, max_body_bytes: usize) -> Router {
        Face::described(http::head())
            .beside(queue::http::face(self.queues.clone()))
            .beside(flow::http::face(self.flow.clone()))
            .beside(Face::described(http::document()))
            .into_router(max_body_bytes)
    }

    /// What operators watch of the products, `top` of each kind by themselves.
    pub(crate) fn figures(&self, database: &pg::Database, top: u32) -> Figures {
        let (queues, flow) = (self.queues.clone(), self.flow.clone());
        Figures { database: database.clone(), queues, flow, orchestrations: self.orchestrations.clone(), top }
    }

    /// What has to be well for the products to work.
    pub(crate) fn checks(&self) -> Vec<Arc<dyn Check>> {
        // All products of a process listen by one connection.
        vec![
            Arc::new(Listening(self.queues.clone())),
            Arc::new(Encryption(self.queues.clone())),
            Arc::new(Orchestrating(self.orchestrator.clone())),
        ]
    }
}

/// Whether work of other processes is noticed at once. Without that it is noticed by polling: worse, and no reason to send
/// requests elsewhere.
struct Listening(Queues);

impl Check for Listening {
    fn name(&self) -> &'static str {
        "wake"
    }

    fn check(&self) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        Box::pin(async { judge(&self.0.health().listener) })
    }
}

/// Whether encrypted queues can be written and read. Others work all the same, so the process stays ready.
struct Encryption(Queues);

impl Check for Encryption {
    fn name(&self) -> &'static str {
        "encryption"
    }

    fn check(&self) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        Box::pin(async { self.0.encryption_failure().map_or(Verdict::Good, Verdict::Degraded) })
    }
}

/// Whether tasks go on as they should. What does not is found by polling: worse, and no reason to send requests elsewhere.
struct Orchestrating(Arc<EventDrivenOrchestrator>);

impl Check for Orchestrating {
    fn name(&self) -> &'static str {
        "flow"
    }

    fn check(&self) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        Box::pin(async { sum_up(&self.0.check()) })
    }
}

fn sum_up(status: &HealthStatus) -> Verdict {
    // Whether anything is heard is the listener's own check.
    let ill = |check: &&HealthCheck| !check.healthy && check.name != "listeners_connected";
    let ill: Vec<String> =
        status.checks.iter().filter(ill).map(|check| format!("{}: {}", check.name, check.detail)).collect();
    if ill.is_empty() { Verdict::Good } else { Verdict::Degraded(ill.join("; ")) }
}

fn judge(listener: &ListenerState) -> Verdict {
    let degraded = |why: &str| Verdict::Degraded(format!("{why}; polling instead"));
    match listener {
        ListenerState::Connected => Verdict::Good,
        ListenerState::Off => degraded("not listening, as there is no direct way to the database"),
        ListenerState::Connecting => degraded("the listener is not connected yet"),
        // The reason may be in the database's words, which are for the log.
        ListenerState::Lost { .. } => degraded("the listener has lost its connection"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A listener that hears nothing degrades the process and never takes it out of service, and the database's own words do
    /// not get into the answer.
    #[test]
    fn a_lost_listener_degrades_and_tells_no_details() {
        assert_eq!(judge(&ListenerState::Connected), Verdict::Good);
        let lost = ListenerState::Lost { reason: "relation \"secret\" does not exist".into() };
        for state in [ListenerState::Off, ListenerState::Connecting, lost] {
            let Verdict::Degraded(reason) = judge(&state) else { panic!("{state:?} is not degraded") };
            assert!(reason.contains("polling") && !reason.contains("secret"), "{reason}");
        }
    }

    /// What the orchestrator finds amiss degrades the process, by its name and with its reason; that nothing is heard is said once,
    /// by who listens.
    #[test]
    fn an_orchestrator_that_is_not_well_degrades() {
        let check = |name, healthy| HealthCheck { name, healthy, detail: "so it is".to_owned() };
        let of = |checks| sum_up(&HealthStatus::aggregate(checks));
        assert_eq!(of(vec![check("fallback_poller", true), check("listeners_connected", false)]), Verdict::Good);
        let ill = of(vec![check("fallback_poller", false), check("coordinators_healthy", false)]);
        let reason = "fallback_poller: so it is; coordinators_healthy: so it is";
        assert_eq!(ill, Verdict::Degraded(reason.to_owned()));
    }
}
