//! What orchestrations do, with two runtimes on one database.
//!
//! Nothing in memory is common to the two: each has a provider of its own, and one of them reaches the server by way of
//! a proxy, which makes it another database to everything that is kept once per database. So whatever passes between
//! them passes through PostgreSQL, as between two processes. Every scenario ends with a check of all histories, as both
//! providers read them.

mod cancelling;
mod continuing;
mod errors;
mod events;
mod fanning;
mod keeping;
mod nesting;
mod removing;
mod routing;
mod sessions;
mod timing;
mod versions;

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{Client, ErrorDetails, Event, EventKind, OrchestrationRegistry, OrchestrationStatus};
use reveille_durable::{LongPollConfig, Options, PostgresProvider};
use reveille_pg::Database;
use reveille_pg::testing::{Proxy, TestDb};

use crate::consistency::check_all;
use crate::fixture::{PATIENCE, eventually};

/// Activities that one runtime executes at the same time.
pub(crate) const WORKERS: usize = 2;
/// How long before its end the lease of an activity is renewed: of thirty seconds, so that it is renewed every second.
/// By that an activity hears that it has been cancelled.
const RENEWED_BEFORE: Duration = Duration::from_secs(29);

/// What one of the runtimes is given.
#[derive(Clone)]
pub(crate) struct Role {
    pub(crate) activities: ActivityRegistry,
    pub(crate) orchestrations: OrchestrationRegistry,
    pub(crate) options: RuntimeOptions,
}

impl Role {
    pub(crate) fn new(activities: ActivityRegistry, orchestrations: OrchestrationRegistry) -> Role {
        let options = RuntimeOptions {
            orchestration_concurrency: 2,
            worker_concurrency: WORKERS,
            worker_lock_renewal_buffer: RENEWED_BEFORE,
            ..RuntimeOptions::default()
        };
        Role { activities, orchestrations, options }
    }

    /// The same with a name by which activities know where they are executed, and which its workers' sessions belong
    /// to.
    pub(crate) fn called(mut self, name: &str) -> Role {
        self.options.worker_node_id = Some(name.to_owned());
        self
    }
}

/// A process: a provider, a runtime on it, a client.
pub(crate) struct Node {
    pub(crate) provider: PostgresProvider,
    pub(crate) client: Client,
    runtime: Option<Arc<Runtime>>,
    role: Role,
}

impl Node {
    async fn start(database: Database, db: &TestDb, role: Role) -> Node {
        let options = Options::default().schema(db.schema().name()).long_poll(LongPollConfig::enabled());
        let provider = PostgresProvider::with_database(database, options).await.expect("start a provider");
        let client = Client::new(Arc::new(provider.clone()));
        let mut node = Node { provider, client, runtime: None, role };
        node.resume().await;
        node
    }

    /// Starts the runtime.
    pub(crate) async fn resume(&mut self) {
        let Role { activities, orchestrations, options } = self.role.clone();
        let store: Arc<dyn Provider> = Arc::new(self.provider.clone());
        self.runtime = Some(Runtime::start_with_options(store, activities, orchestrations, options).await);
    }

    /// Ends the runtime, whatever it is doing.
    pub(crate) async fn stop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown(Some(0)).await;
        }
    }

    /// Ends the runtime and starts one with another role in its process.
    pub(crate) async fn replace(&mut self, role: Role) {
        self.stop().await;
        self.role = role;
        self.resume().await;
    }

    /// Starts an orchestration from here, for any worker.
    pub(crate) async fn begin(&self, instance: &str, orchestration: &str, input: &str) {
        self.client.start_orchestration(instance, orchestration, input).await.expect("started");
    }

    /// How an orchestration ended.
    async fn ended(&self, instance: &str) -> OrchestrationStatus {
        let status = self.provider.wait_for_completion(instance, PATIENCE).await.expect("waiting");
        status.unwrap_or_else(|| panic!("{instance} has not ended within {PATIENCE:?}"))
    }
}

/// Two processes on one database.
pub(crate) struct Two {
    pub(crate) here: Node,
    pub(crate) there: Node,
    pub(crate) db: TestDb,
    _way: Proxy,
}

impl Two {
    /// Both able to do everything.
    pub(crate) async fn start(activities: ActivityRegistry, orchestrations: OrchestrationRegistry) -> Two {
        let role = Role::new(activities, orchestrations);
        Two::with(role.clone().called("here"), role.called("there")).await
    }

    /// Both able to do everything, and there are no activities.
    pub(crate) async fn without_activities(orchestrations: OrchestrationRegistry) -> Two {
        Two::start(ActivityRegistry::builder().build(), orchestrations).await
    }

    pub(crate) async fn with(here: Role, there: Role) -> Two {
        let db = TestDb::new().await;
        let here = Node::start(db.database().clone(), &db, here).await;
        let way = Proxy::start(&db).await;
        let distant =
            Database::connect_lazy(way.url(), reveille_pg::Options::default()).expect("a pool through a proxy");
        let there = Node::start(distant, &db, there).await;
        Two { here, there, db, _way: way }
    }

    /// The output of an orchestration; both sides are woken by its end and see the same.
    pub(crate) async fn output(&self, instance: &str) -> String {
        match self.ended(instance).await {
            OrchestrationStatus::Completed { output, .. } => output,
            other => panic!("{instance}: {other:?}"),
        }
    }

    /// Why an orchestration failed; both sides are woken by its end and see the same.
    pub(crate) async fn failure(&self, instance: &str) -> ErrorDetails {
        match self.ended(instance).await {
            OrchestrationStatus::Failed { details, .. } => details,
            other => panic!("{instance}: {other:?}"),
        }
    }

    async fn ended(&self, instance: &str) -> OrchestrationStatus {
        let (here, there) = tokio::join!(self.here.ended(instance), self.there.ended(instance));
        assert_eq!(here, there, "{instance}");
        here
    }

    /// Waits until something is in the history of the latest execution.
    pub(crate) async fn until(&self, instance: &str, what: &str, is_it: impl Fn(&EventKind) -> bool) {
        eventually(what, async || {
            let history = self.here.provider.read(instance).await.expect("its history");
            history.iter().any(|event| is_it(&event.kind))
        })
        .await;
    }

    /// The events of an execution, as they are there; the same as here.
    pub(crate) async fn history(&self, instance: &str, execution: u64) -> Vec<Event> {
        let here = self.here.client.read_execution_history(instance, execution).await.expect("its history");
        let there = self.there.client.read_execution_history(instance, execution).await.expect("its history");
        assert_eq!(here, there, "{instance}");
        there
    }

    /// A number that the database answers.
    pub(crate) async fn count(&self, sql: &str) -> i64 {
        let sql = self.db.schema().sql(sql);
        sqlx::query_scalar(&sql).fetch_one(self.db.database().pool()).await.expect("a number")
    }

    /// Ends the scenario: everything that is due has been done, nothing is held any more, and all histories are as they
    /// must be. Answers how many executions there were.
    pub(crate) async fn finish(mut self) -> usize {
        let left = "select (select count(*) from {schema}.orchestrator_queue where visible_at <= now())
                         + (select count(*) from {schema}.worker_queue) + (select count(*) from {schema}.instance_locks)";
        eventually("all work is done", async || self.count(left).await == 0).await;
        self.here.stop().await;
        self.there.stop().await;
        let checked = check_all(&self.here.provider).await;
        assert_eq!(check_all(&self.there.provider).await, checked);
        checked
    }
}
