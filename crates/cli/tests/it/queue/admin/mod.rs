//! The administrative routes of queues, against real servers.

mod dead_letters;
mod groups;
mod maintenance;
mod messages;
mod parameters;
mod queues;
mod resources;
mod status;
mod traces;

use serde_json::Value;

use super::document::check;
use super::fixture::Client;
use crate::http::{Answer, get, send};

/// The document that responses are checked against.
pub(super) struct Described<'a> {
    client: &'a Client,
    document: Value,
}

impl<'a> Described<'a> {
    pub(super) async fn of(client: &'a Client) -> Described<'a> {
        Described { client, document: get(client.address, "/openapi.json").await.json() }
    }

    /// Sends a request without a body, and checks the response against the document of `path`.
    pub(super) async fn ask(&self, method: &str, path: &str, asked: &str) -> Value {
        let answer = send(self.client.address, method, &format!("/api/v1/{asked}"), &[], b"").await;
        self.held(method, path, answer, 200)
    }

    /// Sends a request with a body, and checks the response against the document of `path`.
    pub(super) async fn tell(&self, path: &str, asked: &str, body: &Value, status: u16) -> Value {
        self.held("POST", path, self.client.post(asked, body).await, status)
    }

    fn held(&self, method: &str, path: &str, answer: Answer, status: u16) -> Value {
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        let reply = answer.json();
        check(&self.document, path, &method.to_lowercase(), &status.to_string(), &reply);
        reply
    }
}

/// `DELETE /api/v1/…`.
pub(super) async fn delete(client: &Client, path: &str) -> Answer {
    send(client.address, "DELETE", &format!("/api/v1/{path}"), &[], b"").await
}

/// The values of one key of each element, as an array.
pub(super) fn column(reply: &Value, key: &str) -> Value {
    reply.as_array().expect("an array").iter().map(|reply| reply[key].clone()).collect()
}
