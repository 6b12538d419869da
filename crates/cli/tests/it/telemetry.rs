//! Traces and metrics for a collector.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{Json, Router, extract::State, routing::post};
use reveille_pg::testing::TestDb;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::{Mutex, mpsc},
    time::timeout,
};

use crate::{
    http::{get, send},
    process::PATIENCE,
    serve::{quiet, ready, serve, stop},
};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00f067aa0ba902b7";
const JSON: &str = "content-type: application/json";

/// A span as OTLP's JSON has it: every field is known, ids are hexadecimal, times are text.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Span {
    trace_id: String,
    span_id: String,
    parent_span_id: String,
    name: String,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<Attribute>,
    status: Value,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Attribute {
    key: String,
    value: Value,
}

impl Span {
    fn check(&self) {
        let is_hex = |id: &str, digits: usize| id.len() == digits && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(is_hex(&self.trace_id, 32) && is_hex(&self.span_id, 16), "{self:?}");
        assert!(self.parent_span_id.is_empty() || is_hex(&self.parent_span_id, 16), "{self:?}");
        let time = |text: &str| text.parse::<u64>().expect("nanoseconds");
        assert!(time(&self.start_time_unix_nano) <= time(&self.end_time_unix_nano), "{self:?}");
        assert!((1..=5).contains(&self.kind), "{self:?}");
    }

    fn attribute(&self, key: &str) -> Option<&Value> {
        self.attributes.iter().find(|attribute| attribute.key == key).map(|attribute| &attribute.value)
    }
}

/// A collector of the tests: it decodes what it receives, and keeps it.
struct Collector {
    address: SocketAddr,
    received: Mutex<mpsc::UnboundedReceiver<(&'static str, Value)>>,
}

impl Collector {
    async fn start() -> Collector {
        let (sender, received) = mpsc::unbounded_channel();
        let route = |kind: &'static str| {
            post(async move |State(sender): State<mpsc::UnboundedSender<_>>, Json(body): Json<Value>| {
                let _ = sender.send((kind, body));
                Json(json!({"partialSuccess": {}}))
            })
        };
        let app = Router::new()
            .route("/otel/v1/traces", route("traces"))
            .route("/otel/v1/metrics", route("metrics"))
            .with_state(sender);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move { axum::serve(listener, app).await });
        Collector { address, received: received.into() }
    }

    /// The next document of a kind.
    async fn next(&self, kind: &str) -> Value {
        let mut received = self.received.lock().await;
        loop {
            let (is, body) = timeout(PATIENCE, received.recv()).await.expect("in time").expect("it runs");
            if is == kind {
                return body;
            }
        }
    }

    /// Spans until there is one of each name.
    async fn spans(&self, names: &[&str]) -> Vec<Span> {
        let mut all: Vec<Span> = Vec::new();
        while !names.iter().all(|name| all.iter().any(|span| span.name == *name)) {
            let document = self.next("traces").await;
            let resource = &document["resourceSpans"][0];
            let service = json!({"key": "service.name", "value": {"stringValue": "reveille"}});
            assert!(resource["resource"]["attributes"].as_array().is_some_and(|all| all.contains(&service)));
            let spans = resource["scopeSpans"][0]["spans"].clone();
            let spans: Vec<Span> = serde_json::from_value(spans).expect("spans as OTLP has them");
            spans.iter().for_each(Span::check);
            all.extend(spans);
        }
        all
    }
}

/// A message must carry the trace of its push to its consumer, and a task to its worker, and every request must be a
/// span of its client's trace. No span may contain a payload. A collector with a path receives what two servers of one
/// database send: one pushes and submits, the other pops, acks and claims.
#[tokio::test]
async fn one_trace_leads_from_push_to_ack_and_from_submit_to_claim() {
    let (db, collector) = (TestDb::new().await, Arc::new(Collector::start().await));
    let endpoint = format!("http://{}/otel", collector.address);
    let (one, pushes) = ready(serve(&db, &["--otlp-endpoint", &endpoint])).await;
    let (other, pops) = ready(serve(&db, &["--otlp-endpoint", &endpoint])).await;
    let traced = format!("traceparent: 00-{TRACE}-{PARENT}-01");

    let body =
        br#"{"items": [{"queue": "q", "payload": "hunter2"}, {"queue": "own", "traceId": "mine", "payload": 1}]}"#;
    let pushed = send(pushes, "POST", "/api/v1/push", &[JSON, &traced], body).await.json();
    assert_eq!((&pushed[0]["trace_id"], &pushed[1]["trace_id"]), (&TRACE.into(), &"mine".into()), "{pushed}");
    let popped = get(pops, "/api/v1/pop/queue/q?wait=true").await.json();
    let message = &popped["messages"][0];
    assert_eq!(message["traceId"], TRACE, "{popped}");
    let ack = json!({"transactionId": message["transactionId"], "partitionId": message["partitionId"],
                     "leaseId": message["leaseId"]});
    let traced_again = format!("traceparent: 00-{TRACE}-1111111111111111-01");
    let acked = send(pops, "POST", "/api/v1/ack", &[JSON, &traced_again], ack.to_string().as_bytes()).await;
    assert_eq!(acked.json()[0]["success"], true, "{acked:?}");

    let template = b"name: t\nnamespace_name: n\nsteps: [{name: a}]\n";
    assert!(send(pushes, "POST", "/v1/templates", &["content-type: application/yaml"], template).await.status < 300);
    let task = br#"{"namespace": "n", "name": "t", "context": {"secret": "hunter2"}}"#;
    assert_eq!(send(pushes, "POST", "/v1/tasks", &[JSON, &traced], task).await.status, 201);
    let claimed = send(pops, "POST", "/v1/workers/claim", &[JSON], br#"{"worker": "w", "namespaces": ["n"]}"#).await;
    assert_eq!(claimed.json()["steps"][0]["correlation_id"], TRACE, "{claimed:?}");
    // The client has decided not to record this one.
    let unsampled = format!("traceparent: 00-{}-{PARENT}-00", "b".repeat(32));
    assert_eq!(send(pops, "GET", "/health", &[&unsampled], b"").await.status, 200);

    let names = ["POST /api/v1/push", "deliver q", "POST /api/v1/ack", "POST /v1/tasks", "claim a"];
    let spans = collector.spans(&names).await;
    for name in names {
        let span = spans.iter().find(|span| span.name == name).expect("there is one");
        assert_eq!(span.trace_id, TRACE, "{span:?}");
    }
    let push = spans.iter().find(|span| span.name == "POST /api/v1/push").expect("there is one");
    assert_eq!((push.parent_span_id.as_str(), push.kind, &push.status), (PARENT, 2, &json!({})));
    assert_eq!(push.attribute("http.response.status_code"), Some(&json!({"intValue": "201"})));
    assert!(push.attribute("reveille.request_id").is_some(), "{push:?}");
    // Shorter than the time to pop: it began with the push.
    let deliver = spans.iter().find(|span| span.name == "deliver q").expect("there is one");
    assert_eq!(deliver.attribute("reveille.group"), Some(&json!({"stringValue": "__QUEUE_MODE__"})));
    stop(one).await;
    stop(other).await;
    let mut rest = collector.received.lock().await;
    let mut all = format!("{spans:?}");
    while let Ok((_, document)) = rest.try_recv() {
        all.push_str(&document.to_string());
    }
    assert!(!all.contains("hunter2"), "{all}");
    assert!(!all.contains(&"b".repeat(32)), "{all}");
}

/// Metrics must reach the collector under their names, and a collector that is away must not disturb the server.
/// The first document is sent at the start; then the collector's address is one where nothing listens.
#[tokio::test]
async fn metrics_are_exported_and_a_missing_collector_does_no_harm() {
    let (db, collector) = (TestDb::new().await, Collector::start().await);
    let endpoint = format!("http://{}/otel", collector.address);
    let (reveille, _) = ready(serve(&db, &["--otlp-endpoint", &endpoint])).await;
    let document = collector.next("metrics").await;
    let metrics = document["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().expect("a list").clone();
    let build = metrics.iter().find(|metric| metric["name"] == "reveille_build_info").expect("it is there");
    assert_eq!(build["gauge"]["dataPoints"][0]["asDouble"], 1.0, "{build}");
    quiet(reveille).await;

    let nothing = TcpListener::bind("127.0.0.1:0").await.expect("bound").local_addr().expect("an address");
    let (reveille, address) = ready(serve(&db, &["--otlp-endpoint", &format!("http://{nothing}")])).await;
    for _ in 0..20 {
        assert_eq!(timeout(Duration::from_secs(10), get(address, "/health")).await.expect("at once").status, 200);
    }
    reveille.line("does not take them").await;
    quiet(reveille).await;
}
