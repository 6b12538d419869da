//! Flows for tests, each in a schema of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use reveille_flow::{
    AttemptResult, ClaimRequest, ClaimedStep, Failure, Flow, Options, Refused, ReportedStep, StepReport, Submission,
};
use reveille_pg::Database;
pub(crate) use reveille_pg::testing::PATIENCE;
use reveille_pg::testing::{Proxy, TestDb};
use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

/// The namespace of the tests.
pub(crate) const NAMESPACE: &str = "tests";

/// A flow and its schema.
pub(crate) struct Fixture {
    pub(crate) db: TestDb,
    pub(crate) flow: Flow,
}

/// The flow of another process: the same tables, without shared memory.
pub(crate) struct Elsewhere {
    pub(crate) flow: Flow,
    pub(crate) way: Proxy,
}

impl Elsewhere {
    pub(crate) async fn start(db: &TestDb) -> Elsewhere {
        // Another address makes it another database for objects that exist once per database.
        let way = Proxy::start(db).await;
        let database =
            Database::connect_lazy(way.url(), reveille_pg::Options::default()).expect("a pool through a proxy");
        let flow = Flow::open(database, db.schema().clone(), Options::default()).await.expect("open a flow");
        Elsewhere { flow, way }
    }
}

impl std::ops::Deref for Fixture {
    type Target = Flow;

    fn deref(&self) -> &Flow {
        &self.flow
    }
}

impl Fixture {
    pub(crate) async fn new() -> Fixture {
        let db = TestDb::new().await;
        let flow =
            Flow::open(db.database().clone(), db.schema().clone(), Options::default()).await.expect("open a flow");
        Fixture { db, flow }
    }

    /// A flow with a template `t`, from its steps as YAML.
    pub(crate) async fn with(steps: &str) -> Fixture {
        let fixture = Fixture::new().await;
        fixture.template("t", steps).await;
        fixture
    }

    pub(crate) async fn template(&self, name: &str, steps: &str) {
        let text =
            format!("name: {name}\nnamespace_name: {NAMESPACE}\nidentity_strategy: always_unique\nsteps: {steps}\n");
        self.register(&text).await.unwrap_or_else(|error| panic!("{text}: {error}"));
    }

    /// A task of the template `t`.
    pub(crate) async fn task(&self) -> Uuid {
        self.submit(submission("t", json!({"a": 1}))).await.expect("a task").task_uuid
    }

    /// What can be claimed now.
    pub(crate) async fn now(&self, want: usize) -> Vec<ClaimedStep> {
        self.claim(&worker(), want, None).await.expect("a claim")
    }

    /// Waits for the next step.
    pub(crate) async fn next(&self) -> ClaimedStep {
        let mut claimed = self.claim(&worker(), 1, Some(Instant::now() + PATIENCE)).await.expect("a claim");
        claimed.pop().expect("nothing came")
    }

    /// A claim that waits for a step of one of these names.
    pub(crate) async fn waiting(&self, steps: &[&str]) -> tokio::task::JoinHandle<ClaimedStep> {
        let steps = Some(steps.iter().map(|step| (*step).to_owned()).collect());
        let (flow, worker) = (self.flow.clone(), ClaimRequest { steps, ..worker() });
        let before = self.claims().empty_polls;
        let waiting = tokio::spawn(async move {
            let claimed = flow.claim(&worker, 1, Some(Instant::now() + PATIENCE)).await;
            claimed.expect("a claim").pop().expect("nothing came")
        });
        reveille_pg::testing::eventually("an empty poll", async || self.claims().empty_polls > before).await;
        waiting
    }

    /// The names of the steps that can be claimed now. Each is completed with its name as the result.
    pub(crate) async fn run(&self) -> Vec<String> {
        let steps = self.now(100).await;
        let names = steps.iter().map(|step| step.name.clone()).collect();
        for step in &steps {
            self.complete(step, json!(step.name)).await;
        }
        names
    }

    /// Completes all steps, wave by wave, and returns the names of each wave.
    pub(crate) async fn waves(&self) -> Vec<Vec<String>> {
        let mut waves = Vec::new();
        loop {
            let mut wave = self.run().await;
            if wave.is_empty() {
                return waves;
            }
            wave.sort();
            waves.push(wave);
        }
    }

    pub(crate) async fn say(&self, step: &ClaimedStep, result: AttemptResult) -> Result<ReportedStep, Refused> {
        self.report(vec![StepReport { token: step.token, result }]).await.expect("an answer").remove(0)
    }

    pub(crate) async fn complete(&self, step: &ClaimedStep, result: Value) -> ReportedStep {
        self.say(step, AttemptResult::Complete(result.into())).await.expect("it counts")
    }

    pub(crate) async fn fail(&self, step: &ClaimedStep, retryable: bool) -> ReportedStep {
        self.say(step, AttemptResult::Failed(failure(retryable))).await.expect("it counts")
    }

    /// The states of the steps of a task, by their names.
    pub(crate) async fn states(&self, task: Uuid) -> BTreeMap<String, String> {
        let sql = self.db.schema().sql(
            "select d.name || coalesce('_' || s.part, ''), s.state::text from {schema}.step s
             join {schema}.task t on t.id = s.task_id
             join {schema}.definition d on d.template_id = t.template_id and d.ordinal = s.slot
             where s.task_id = $1",
        );
        let rows: Vec<(String, String)> =
            sqlx::query_as(&sql).bind(task).fetch_all(self.db.database().pool()).await.expect("steps");
        rows.into_iter().collect()
    }

    /// The state of a task, and the number of its open steps.
    pub(crate) async fn state_and_open_steps(&self, task: Uuid) -> (String, i32) {
        let sql = self.db.schema().sql("select t.state::text, t.unfinished from {schema}.task t where t.id = $1");
        sqlx::query_as(&sql).bind(task).fetch_one(self.db.database().pool()).await.expect("a task")
    }

    /// The outcomes of the attempts of a task, in order.
    pub(crate) async fn attempts(&self, task: Uuid) -> Vec<(i32, String)> {
        let sql = self.db.schema().sql(
            "select a.attempt, a.outcome::text from {schema}.attempt a where a.task_id = $1 order by a.ended_at, a.ordinal, a.fence",
        );
        sqlx::query_as(&sql).bind(task).fetch_all(self.db.database().pool()).await.expect("attempts")
    }
}

pub(crate) fn submission(name: &str, context: Value) -> Submission {
    Submission::new(NAMESPACE, name, "1.0.0", context)
}

pub(crate) fn worker() -> ClaimRequest {
    ClaimRequest {
        name: "tester".to_owned(),
        namespaces: vec![NAMESPACE.to_owned()],
        steps: None,
        lease: Duration::from_secs(60),
    }
}

pub(crate) fn failure(retryable: bool) -> Failure {
    Failure {
        message: "broken".to_owned(),
        kind: None,
        retryable,
        status_code: None,
        context: None,
        retry_delay_ms: None,
    }
}

/// A JSON text as a value.
pub(crate) fn read(json: &serde_json::value::RawValue) -> Value {
    serde_json::from_str(json.get()).expect("JSON")
}
