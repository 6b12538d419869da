//! A server, and a runtime on its schema.

use std::net::SocketAddr;
use std::sync::Arc;

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use reveille_durable::{LongPollConfig, Options, PostgresProvider};
use reveille_pg::testing::TestDb;
use serde_json::{Value, json};

use crate::described::Document;
use crate::http::{Answer, eventually, get, send};
use crate::process::Reveille;
use crate::remote::fixture::Shell;
use crate::serve::{ready, serve};

/// A running server on a schema of its own.
pub(super) struct Server {
    pub(super) db: TestDb,
    pub(super) shell: Shell,
    pub(super) address: SocketAddr,
    document: Document,
    _reveille: Reveille,
}

impl Server {
    pub(super) async fn start() -> Server {
        let db = TestDb::new().await;
        let (reveille, address) = ready(serve(&db, &[])).await;
        let document = Document::of(address).await;
        Server { db, shell: Shell { address }, address, document, _reveille: reveille }
    }

    /// Starts a runtime that knows the orchestrations of this file.
    pub(super) async fn runtime(&self) -> Arc<Runtime> {
        let options = Options::default().schema(self.db.schema().name()).long_poll(LongPollConfig::enabled());
        let provider = PostgresProvider::with_database(self.db.database().clone(), options).await.expect("a provider");
        let options =
            RuntimeOptions { orchestration_concurrency: 2, worker_concurrency: 2, ..RuntimeOptions::default() };
        Runtime::start_with_options(Arc::new(provider), activities(), orchestrations(), options).await
    }

    /// `GET /v1/durable/…`.
    pub(super) async fn get(&self, path: &str) -> Answer {
        let path = format!("/v1/durable/{path}");
        let answer = get(self.address, &path).await;
        self.document.check("GET", &path, &answer);
        answer
    }

    /// The JSON of a response of success.
    pub(super) async fn json(&self, path: &str) -> Value {
        let answer = self.get(path).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// `POST /v1/durable/…`.
    pub(super) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, body.to_string().as_bytes()).await
    }

    pub(super) async fn send(&self, method: &str, path: &str, body: &[u8]) -> Answer {
        let path = format!("/v1/durable/{path}");
        let headers: &[&str] = if body.is_empty() { &[] } else { &["content-type: application/json"] };
        let answer = send(self.address, method, &path, headers, body).await;
        self.document.check(method, &path, &answer);
        answer
    }

    /// Starts an instance with a text as its input.
    pub(super) async fn begin(&self, instance: &str, name: &str, text: &str) {
        let body = json!({"instance": instance, "name": name, "text": text});
        let answer = self.post("instances", &body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }

    /// An instance when its response contains a text.
    pub(super) async fn shows(&self, instance: &str, part: &str) -> Value {
        let path = format!("/v1/durable/instances/{instance}");
        eventually(self.address, &path, |answer| answer.body.contains(part)).await.json()
    }

    /// An instance after its end. A sub-orchestration may not have begun yet.
    pub(super) async fn ended(&self, instance: &str) -> Value {
        let path = format!("/v1/durable/instances/{instance}?wait_ms=60000");
        let found = eventually(self.address, &path, |answer| answer.status == 200).await.json();
        assert!(found["completed_at"].is_string(), "{found}");
        found
    }
}

fn activities() -> ActivityRegistry {
    let charge = |_: ActivityContext, input: String| async move { Ok(format!("charged {input}")) };
    let refuse = |_: ActivityContext, _: String| async move { Err::<String, _>("out of stock".to_owned()) };
    ActivityRegistry::builder().register("Charge", charge).register("Refuse", refuse).build()
}

fn orchestrations() -> OrchestrationRegistry {
    // An activity, a sub-orchestration, a key, a status, and an event.
    let order = |ctx: OrchestrationContext, input: String| async move {
        ctx.set_custom_status("charging");
        let charged = ctx.schedule_activity("Charge", input).await?;
        ctx.set_kv_value("charged", &charged);
        let shipped = ctx.schedule_sub_orchestration_with_id("Ship", "ship-of-order", "parcel").await?;
        ctx.set_custom_status("waiting for payment");
        let paid = ctx.schedule_wait("Paid").await;
        Ok(format!("{charged}, {shipped}, {paid}"))
    };
    let ship = |ctx: OrchestrationContext, input: String| async move { ctx.schedule_activity("Charge", input).await };
    // An execution for each number up to three.
    let count = |ctx: OrchestrationContext, input: String| async move {
        if input == "3" {
            return Ok(input);
        }
        let next = input.parse::<u64>().unwrap_or(0) + 1;
        ctx.continue_as_new(next.to_string()).await
    };
    let fail = |ctx: OrchestrationContext, input: String| async move { ctx.schedule_activity("Refuse", input).await };
    let hello = |_: OrchestrationContext, input: String| async move { Ok(format!("hello {input}")) };
    OrchestrationRegistry::builder()
        .register("Order", order)
        .register("Ship", ship)
        .register("Count", count)
        .register("Fail", fail)
        .register("Hello", hello)
        .build()
}
