//! Request ids in answers and in the log.

use reveille_pg::testing::TestDb;
use serde_json::Value;

use crate::{
    http::{Answer, get, send},
    serve::{ready, serve, stop},
};

/// The id in a response.
fn id(answer: &Answer) -> &str {
    let line = answer.headers.lines().find_map(|line| line.strip_prefix("x-request-id: "));
    line.unwrap_or_else(|| panic!("no id in {answer:?}"))
}

/// Every answer must have an id, whatever its status: the client's, if it is plain, else a new one. The line of the
/// access log must have the same id, the route without its names, and nothing of the payload.
/// Requests of each kind at a server that logs JSON.
#[tokio::test]
async fn every_answer_and_log_line_has_the_id_of_its_request() {
    let db = TestDb::new().await;
    let log = ["--log-format", "json", "--log", "info,reveille::access=debug"];
    let (reveille, address) = ready(serve(&db, &log)).await;
    let json = "content-type: application/json";

    let body = br#"{"items": [{"queue": "hunter2", "payload": "hunter2"}]}"#;
    let pushed = send(address, "POST", "/api/v1/push", &[json, "X-Request-Id: push-1"], body).await;
    assert_eq!((pushed.status, id(&pushed)), (201, "push-1"), "{pushed:?}");
    let shown = send(address, "GET", "/api/v1/resources/queues/hunter2", &["x-request-id: show/2"], b"").await;
    assert_eq!((shown.status, id(&shown)), (200, "show/2"), "{shown:?}");
    let rejected = send(address, "POST", "/api/v1/push", &[json, "x-request-id: bad-3"], b"{").await;
    assert_eq!((rejected.status, id(&rejected)), (400, "bad-3"), "{rejected:?}");
    let foreign =
        send(address, "POST", "/api/v1/push", &[json, "origin: http://evil.example", "x-request-id: web-4"], body)
            .await;
    assert_eq!((foreign.status, id(&foreign)), (403, "web-4"), "{foreign:?}");
    let odd = send(address, "GET", "/health", &["x-request-id: a b\"c"], b"").await;
    assert!(!id(&odd).contains(' ') && id(&odd).len() > 16, "{odd:?}");
    let (one, other) = (get(address, "/health").await, get(address, "/no/such/route").await);
    assert_eq!(other.status, 404);
    assert_ne!(id(&one), id(&other));

    let made = id(&one).to_owned();
    let output = stop(reveille).await;
    let line = |id: &str| -> Value {
        let lines = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let found = lines.into_iter().find(|line| line["span"]["id"] == id && line["target"] == "reveille::access");
        found.unwrap_or_else(|| panic!("{id} is not in\n{output}"))
    };
    assert_eq!((&line("push-1")["status"], &line("push-1")["route"]), (&201.into(), &"/api/v1/push".into()));
    assert_eq!(line("show/2")["route"], "/api/v1/resources/queues/{queue}");
    assert_eq!((&line("bad-3")["status"], &line("web-4")["status"]), (&400.into(), &403.into()));
    assert_eq!(line(&made)["method"], "GET");
    assert!(!output.contains("hunter2"), "{output}");
}
