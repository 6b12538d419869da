//! A server to look at.

use std::net::SocketAddr;

use reveille_pg::testing::TestDb;
use serde_json::Value;

use crate::http::{Answer, eventually, get, send};
use crate::process::{Reveille, command};

/// A running server, and its schema.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    _process: Reveille,
    pub(crate) db: TestDb,
}

impl Server {
    /// Starts a server with more arguments on a schema of its own.
    pub(crate) async fn start(more: &[&str]) -> Server {
        let db = TestDb::new().await;
        let url = db.url().to_owned();
        Server::on(db, &url, more).await
    }

    /// The same as another role.
    pub(crate) async fn on(db: TestDb, url: &str, more: &[&str]) -> Server {
        let mut serve = command(&["serve"]);
        serve
            .args(more)
            .env("REVEILLE_LISTEN", "127.0.0.1:0")
            .env("DATABASE_URL", url)
            .env("REVEILLE_SCHEMA", db.schema().name());
        let process = Reveille::start(serve);
        let address = process.address().await;
        eventually(address, "/health", |answer| answer.status == 200).await;
        Server { address, _process: process, db }
    }

    /// The address of a page: `queues/orders`.
    pub(crate) fn page(&self, path: &str) -> String {
        let slash = if path.is_empty() { "" } else { "/" };
        format!("http://{}/console{slash}{path}", self.address)
    }

    /// Sends a request with a JSON body, which must succeed.
    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        let headers = ["content-type: application/json"];
        let answer = send(self.address, "POST", path, &headers, body.to_string().as_bytes()).await;
        assert!(answer.status < 300, "{path}: {answer:?}");
        answer
    }

    /// Sends a GET.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        get(self.address, path).await
    }
}
