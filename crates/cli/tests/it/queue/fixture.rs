//! A server of the queue, and a client of it.

use std::net::SocketAddr;

use reveille_pg::testing::TestDb;
use serde_json::{Value, json};

pub(super) use crate::http::assert_refused;
use crate::http::{Answer, get, send};
use crate::process::Reveille;
use crate::serve::{ready, serve};

/// The prefix of all paths.
pub(crate) const BASE: &str = "/api/v1";
/// The content type of request bodies.
const JSON: &str = "content-type: application/json";

/// A running server on a schema of its own.
pub(crate) struct Server {
    pub(crate) db: TestDb,
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
        Server { db, reveille, client: Client { address } }
    }

    /// Starts another server on the same schema.
    pub(crate) async fn another(&self) -> (Reveille, Client) {
        let (reveille, address) = ready(serve(&self.db, &[])).await;
        (reveille, Client { address })
    }

    /// Changes an option of a queue that exists.
    pub(crate) async fn set(&self, queue: &str, option: &str) {
        let sql = self.db.schema().sql(&format!("update {{schema}}.queue set {option} where name = $1"));
        let done = sqlx::query(&sql).bind(queue).execute(self.db.database().pool()).await.expect("set an option");
        assert_eq!(done.rows_affected(), 1, "there is a queue {queue}");
    }
}

/// A client of a server.
#[derive(Clone, Copy)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
}

impl Client {
    /// `GET /api/v1/…`.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        get(self.address, &format!("{BASE}/{path}")).await
    }

    /// `POST /api/v1/…` with a JSON body.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_text(path, &body.to_string()).await
    }

    /// The same with a body that may not be JSON.
    pub(crate) async fn post_text(&self, path: &str, body: &str) -> Answer {
        send(self.address, "POST", &format!("{BASE}/{path}"), &[JSON], body.as_bytes()).await
    }

    /// Pushes messages whose payloads are their transaction ids; returns the outcome of each.
    pub(crate) async fn push(&self, queue: &str, partition: &str, transactions: &[&str]) -> Value {
        let item = |transaction: &&str| json!({"queue": queue, "partition": partition, "transactionId": transaction, "payload": transaction});
        let answer = self.post("push", &json!({"items": transactions.iter().map(item).collect::<Vec<_>>()})).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()
    }

    /// Pops; there must be a message.
    pub(crate) async fn pop(&self, path: &str) -> Value {
        let answer = self.get(&popping(path)).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    /// Pops; there must be no message.
    pub(crate) async fn pop_nothing(&self, path: &str) {
        let answer = self.get(&popping(path)).await;
        assert_eq!((answer.status, answer.body.as_str()), (204, ""), "{path}: {answer:?}");
    }

    /// Acks all messages of a pop with a status; returns the outcome of each.
    pub(crate) async fn ack(&self, popped: &Value, status: &str) -> Value {
        let answer = self.post("ack/batch", &json!({"acknowledgments": acks_of(popped, status)})).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }
}

/// The path of a pop: of a queue, or with parameters alone.
pub(crate) fn popping(path: &str) -> String {
    if path.starts_with('?') { format!("pop{path}") } else { format!("pop/{path}") }
}

/// The acks of all messages of a pop.
pub(crate) fn acks_of(popped: &Value, status: &str) -> Vec<Value> {
    let ack = |message: &Value| {
        json!({
            "transactionId": message["transactionId"],
            "partitionId": message["partitionId"],
            "leaseId": message["leaseId"],
            "status": status,
            "error": if status == "failed" { json!("broken") } else { Value::Null },
        })
    };
    messages(popped).iter().map(ack).collect()
}

pub(crate) fn messages(popped: &Value) -> &[Value] {
    popped["messages"].as_array().expect("messages")
}

/// The payloads of a pop, in order.
pub(crate) fn data(popped: &Value) -> Vec<&str> {
    messages(popped).iter().map(|message| message["data"].as_str().expect("text")).collect()
}

/// The values of one key of each element.
pub(crate) fn each<'a>(reply: &'a Value, key: &str) -> Vec<&'a Value> {
    reply.as_array().expect("an array").iter().map(|reply| &reply[key]).collect()
}

/// The names of an object's keys, in order.
pub(crate) fn keys(object: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = object.as_object().expect("an object").keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}
