//! A server with flow, and a client.

use std::net::SocketAddr;

use reveille_pg::testing::TestDb;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::described::Document;
use crate::http::{Answer, eventually, get, send};
use crate::process::Reveille;
use crate::serve::{ready, serve};

/// The prefix of all paths.
pub(super) const BASE: &str = "/v1";
/// The content type of request bodies.
pub(super) const JSON: &str = "content-type: application/json";

/// A running server on a schema of its own.
pub(crate) struct Server {
    pub(super) db: TestDb,
    pub(crate) reveille: Reveille,
    pub(crate) client: Client,
}

impl std::ops::Deref for Server {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Server {
    pub(crate) async fn start() -> Server {
        Server::with(&[]).await
    }

    /// Starts a server with more command-line options.
    pub(crate) async fn with(more: &[&str]) -> Server {
        let db = TestDb::new().await;
        let (reveille, address) = ready(serve(&db, more)).await;
        Server { db, reveille, client: Client::of(address).await }
    }

    /// Starts a server with a template `t` that has these steps (YAML).
    pub(crate) async fn of(steps: &str) -> Server {
        let server = Server::start().await;
        server.template("t", steps).await;
        server
    }

    /// Starts another server on the same schema.
    pub(super) async fn another(&self) -> (Reveille, Client) {
        self.another_by(serve(&self.db, &[])).await
    }

    /// Starts another server on the same schema with this command.
    pub(super) async fn another_by(&self, command: Command) -> (Reveille, Client) {
        let (reveille, address) = ready(command).await;
        (reveille, Client { address, document: self.document.clone() })
    }
}

/// A client that checks every response against the OpenAPI document.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    document: Document,
}

impl Client {
    /// A client of a ready server.
    pub(super) async fn of(address: SocketAddr) -> Client {
        Client { address, document: Document::of(address).await }
    }

    /// `GET /v1/…`.
    pub(super) async fn get(&self, path: &str) -> Answer {
        let path = format!("{BASE}/{path}");
        let answer = get(self.address, &path).await;
        self.document.check("GET", &path, &answer);
        answer
    }

    /// `POST /v1/…` with a JSON body.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &[JSON], body.to_string().as_bytes()).await
    }

    pub(super) async fn send(&self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Answer {
        let path = format!("{BASE}/{path}");
        let answer = send(self.address, method, &path, headers, body).await;
        self.document.check(method, &path, &answer);
        answer
    }

    /// Registers a template in the namespace `tests` with these steps (YAML).
    pub(crate) async fn template(&self, name: &str, steps: &str) {
        let text = format!("name: {name}\nnamespace_name: tests\nidentity_strategy: always_unique\nsteps: {steps}\n");
        let answer = self.send("POST", "templates", &["content-type: application/yaml"], text.as_bytes()).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }

    /// Submits a task of the template `t`.
    pub(crate) async fn task(&self, context: Value) -> String {
        let answer = self.post("tasks", &wanted("t", context)).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        text(&answer.json()["task_uuid"])
    }

    /// Claims ready steps without waiting.
    pub(super) async fn now(&self, max_steps: usize) -> Vec<Value> {
        let answer = self.post("workers/claim", &claim(max_steps, 0)).await;
        match answer.status {
            204 => Vec::new(),
            200 => answer.json()["steps"].as_array().expect("steps").clone(),
            _ => panic!("{answer:?}"),
        }
    }

    /// Claims and completes steps until none is ready.
    pub(super) async fn finish(&self) {
        loop {
            let steps = self.now(100).await;
            if steps.is_empty() {
                return;
            }
            let done: Vec<Value> =
                steps.iter().map(|step| json!({"token": step["token"], "result": step["name"]})).collect();
            self.report("complete", json!(done)).await;
        }
    }

    /// Sends reports on steps and returns the outcome of each.
    pub(crate) async fn report(&self, what: &str, steps: Value) -> Vec<Value> {
        let answer = self.post(&format!("workers/{what}"), &json!({ "steps": steps })).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["results"].as_array().expect("results").clone()
    }

    /// Waits until so many claims wait at the server, according to its metrics.
    pub(super) async fn until_waiting(&self, count: usize) {
        let line = format!("reveille_wake_waiters{{consumer=\"steps\"}} {count}\n");
        eventually(self.address, "/metrics", |answer| answer.body.contains(&line)).await;
    }
}

/// The body of a submission in the namespace `tests`.
pub(super) fn wanted(template: &str, context: Value) -> Value {
    json!({"namespace": "tests", "name": template, "version": "1.0.0", "context": context})
}

/// The body of a claim for all steps of the namespace `tests`.
pub(super) fn claim(max_steps: usize, wait_ms: u64) -> Value {
    json!({"worker": "tester", "namespaces": ["tests"], "max_steps": max_steps, "wait_ms": wait_ms})
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}
