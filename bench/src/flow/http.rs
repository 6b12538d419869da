//! Reveille over HTTP: each submitter and worker has a connection, as existing clients have.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tasks::{Engine, Progress, Workload};
use tokio::task::JoinSet;

use super::template::{LAST, NAME, NAMESPACE, VERSION, context, text};
use crate::Result;
use crate::connection::Connection;

/// How long one request waits for a step to claim, or for the end of a task.
const WAIT_MS: u64 = 30_000;

/// A server with its workers.
#[derive(Clone)]
pub(super) struct Http {
    server: SocketAddr,
    submission: Arc<[u8]>,
    /// Unused connections.
    spare: Arc<Mutex<Vec<Connection>>>,
    _workers: Arc<JoinSet<Result<()>>>,
}

impl Http {
    /// Registers the shape and starts the workers.
    pub(super) async fn start(server: SocketAddr, workload: &Workload, progress: &Arc<Progress>) -> Result<Http> {
        let mut connection = Connection::open(server).await?;
        connection.ask(Method::POST, "/v1/templates", Some(text(workload.shape, NAMESPACE).into())).await?;
        let mut workers = JoinSet::new();
        for number in 0..workload.workers {
            let connection = Connection::open(server).await?;
            let (slots, progress) = (workload.slots, progress.clone());
            let names = vec![NAMESPACE.to_owned()];
            workers.spawn(async move {
                let worked = work(connection, number, &names, slots, &progress).await;
                if let Err(error) = &worked {
                    eprintln!("  a worker has ended: {error}");
                }
                worked
            });
        }
        let submission =
            json!({"namespace": NAMESPACE, "name": NAME, "version": VERSION, "context": context()}).to_string();
        let spare = Arc::new(Mutex::new(vec![connection]));
        Ok(Http { server, submission: submission.into_bytes().into(), spare, _workers: Arc::new(workers) })
    }

    async fn connection(&self) -> Result<Connection> {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match spare {
            Some(connection) => Ok(connection),
            None => Connection::open(self.server).await,
        }
    }

    fn spare(&self, connection: Connection) {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }
}

#[derive(Deserialize)]
struct Claimed {
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    token: String,
    callable: String,
}

#[derive(Serialize)]
struct Completes {
    steps: Vec<Complete>,
}

#[derive(Serialize)]
struct Complete {
    token: String,
    result: bool,
}

#[derive(Deserialize)]
struct Outcomes {
    results: Vec<Outcome>,
}

#[derive(Deserialize)]
struct Outcome {
    ok: bool,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Submitted {
    task_uuid: String,
}

#[derive(Deserialize)]
struct TaskStatus {
    status: String,
}

/// Claims steps, reports progress and completes the steps, until a request fails.
pub(super) async fn work(
    mut connection: Connection,
    number: usize,
    namespaces: &[String],
    slots: usize,
    progress: &Progress,
) -> Result<()> {
    let worker = format!("worker-{number}");
    let claim = json!({"worker": worker, "namespaces": namespaces, "max_steps": slots, "wait_ms": WAIT_MS});
    let claim = claim.to_string().into_bytes();
    loop {
        let answer = connection.ask(Method::POST, "/v1/workers/claim", Some(claim.clone())).await?;
        let Some(answer) = answer else { continue };
        let claimed: Claimed = serde_json::from_slice(&answer)?;
        claimed.steps.iter().for_each(|step| progress.ran(step.callable == LAST));
        let steps = claimed.steps.into_iter().map(|step| Complete { token: step.token, result: true }).collect();
        let said = serde_json::to_vec(&Completes { steps })?;
        let answer = connection.ask(Method::POST, "/v1/workers/complete", Some(said)).await?.unwrap_or_default();
        let outcomes: Outcomes = serde_json::from_slice(&answer)?;
        if let Some(refused) = outcomes.results.into_iter().find(|result| !result.ok) {
            return Err(refused.error.unwrap_or_default().into());
        }
    }
}

impl Engine for Http {
    type Ticket = String;

    async fn submit(&self) -> Result<String> {
        let mut connection = self.connection().await?;
        let answer = connection.ask(Method::POST, "/v1/tasks", Some(self.submission.to_vec())).await?;
        self.spare(connection);
        Ok(serde_json::from_slice::<Submitted>(&answer.unwrap_or_default())?.task_uuid)
    }

    async fn done(&self, task: String) -> Result<()> {
        let mut connection = self.connection().await?;
        let answer = connection.ask(Method::GET, &format!("/v1/tasks/{task}?wait_ms={WAIT_MS}"), None).await?;
        self.spare(connection);
        let task: TaskStatus = serde_json::from_slice(&answer.unwrap_or_default())?;
        if task.status == "complete" { Ok(()) } else { Err(format!("a task is {}", task.status).into()) }
    }
}
