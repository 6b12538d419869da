//! Reveille as a library, in the process that submits tasks and runs steps.

use std::sync::Arc;
use std::time::Duration;

use reveille_flow::{EventDrivenOrchestrator, Failure, Flow, Options, Step, Submission, Worker, WorkerBuilder};
use serde_json::Value;
use tasks::{Engine, Progress, Workload};
use tokio::time::Instant;
use uuid::Uuid;

use super::template::{LAST, NAME, NAMESPACE, STEP, VERSION, context, text};
use crate::Result;

/// Longer than any task.
const PATIENCE: Duration = Duration::from_secs(120);

/// The tasks of a schema.
pub(super) async fn open(url: &str, schema: &str, connections: u32) -> Result<Flow> {
    let pool = reveille_pg::Options::default().max_connections(connections);
    let db = reveille_pg::Database::connect(url, pool).await?;
    Ok(Flow::open(db, reveille_pg::Schema::new(schema)?, Options::default()).await?)
}

/// A worker whose handlers only report progress.
pub(super) fn telling(worker: WorkerBuilder, progress: &Arc<Progress>) -> WorkerBuilder {
    let (steps, lasts) = (progress.clone(), progress.clone());
    worker
        .handle(STEP, move |_: Step<Value>| {
            steps.ran(false);
            async { Ok::<_, Failure>(true) }
        })
        .handle(LAST, move |_: Step<Value>| {
            lasts.ran(true);
            async { Ok::<_, Failure>(true) }
        })
}

/// The engine with its workers.
#[derive(Clone)]
pub(super) struct Library {
    flow: Flow,
    namespace: String,
    /// Stopped when dropped.
    _running: Arc<(EventDrivenOrchestrator, Vec<Worker>)>,
}

impl Library {
    /// Registers the shape and starts the workers.
    pub(super) async fn start(flow: Flow, workload: &Workload, progress: &Arc<Progress>) -> Result<Library> {
        flow.register(&text(workload.shape, NAMESPACE)).await?;
        let start = |number| {
            let worker = flow.worker(format!("worker-{number}")).namespace(NAMESPACE).concurrency(workload.slots);
            telling(worker, progress).start()
        };
        let workers = (0..workload.workers).map(start).collect::<reveille_flow::Result<Vec<Worker>>>()?;
        Ok(Library::with(flow, NAMESPACE, workers))
    }

    /// Uses workers that are running already.
    pub(super) fn with(flow: Flow, namespace: &str, workers: Vec<Worker>) -> Library {
        let _running = Arc::new((flow.orchestrate(), workers));
        Library { flow, namespace: namespace.to_owned(), _running }
    }

    /// The same engine, for another namespace.
    pub(super) fn within(&self, namespace: &str) -> Library {
        Library { namespace: namespace.to_owned(), ..self.clone() }
    }
}

impl Engine for Library {
    type Ticket = Uuid;

    async fn submit(&self) -> Result<Uuid> {
        Ok(self.flow.submit(Submission::new(&self.namespace, NAME, VERSION, context())).await?.task_uuid)
    }

    async fn done(&self, task: Uuid) -> Result<()> {
        let ended = self.flow.wait(task, Instant::now() + PATIENCE).await?;
        ended.map(drop).ok_or_else(|| "a task did not end".into())
    }
}
