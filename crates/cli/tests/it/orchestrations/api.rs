//! Reading instances, and messages to them.

use serde_json::{Value, json};

use super::fixture::Server;
use crate::http::assert_refused;

/// What an orchestration did must be visible: its state, history with durations and payloads, keys, children, executions.
/// A real runtime runs one up to the event that it waits for, and then to its end.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_shown_with_everything_that_belongs_to_it() {
    let server = Server::start().await;
    let runtime = server.runtime().await;
    let body = json!({"instance": "order/42 ?é", "name": "Order", "input": {"total": 12345678901234567890_u64}});
    let started = server.post("instances", &body).await;
    assert_eq!((started.status, &started.json()["existed"]), (201, &json!(false)));
    let id = "order%2F42%20%3F%C3%A9";
    let path = format!("instances/{id}");
    server.shows(id, "waits for the event").await;
    // The state is read before the history that gives the reason: a second read has the state of that turn.
    let found = server.json(&path).await;
    assert_eq!(found["reason"], "It waits for the event \"Paid\".");
    assert_eq!((&found["status"], &found["waits_for"]), (&json!("Running"), &json!(["Paid"])));
    assert_eq!((&found["custom_status"], &found["output"]), (&json!("waiting for payment"), &Value::Null));

    let raised = server.post(&format!("{path}/events/Paid"), &json!({"data": {"amount": 1.10}})).await;
    assert_eq!(raised.status, 200, "{raised:?}");
    let ended = server.ended(id).await;
    let output = "charged {\"total\":12345678901234567890}, charged parcel, {\"amount\":1.1}";
    assert_eq!((&ended["status"], &ended["output"]), (&json!("Completed"), &json!(output)));
    assert!(ended["reason"].as_str().is_some_and(|why| why.starts_with("It completed at ")), "{ended}");

    let history = server.json(&format!("{path}/history?format=raw&limit=1000")).await;
    let events = history["events"].as_array().expect("events");
    let of =
        |kind: &str| events.iter().find(|event| event["type"] == kind).unwrap_or_else(|| panic!("{kind}: {history}"));
    let charged = of("ActivityCompleted");
    assert_eq!((&charged["name"], charged["duration_ms"].is_u64()), (&json!("Charge"), true));
    assert!(charged["event"]["result"].as_str().is_some_and(|text| text.contains("12345678901234567890")));
    assert_eq!(of("SubOrchestrationCompleted")["name"], "Ship");
    assert_eq!(of("ExternalEvent")["name"], "Paid");

    // Pages of two events are the same history, and contain no payloads.
    let (mut after, mut paged) = (json!(0), Vec::new());
    while after.is_u64() {
        let page = server.json(&format!("{path}/history?after={after}&limit=2")).await;
        paged.extend(page["events"].as_array().expect("events").clone());
        after = page["next"].clone();
    }
    let ids = |events: &[Value]| events.iter().map(|event| event["event_id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(&paged), ids(events));
    assert!(!json!(paged).to_string().contains("12345678901234567890"), "{paged:?}");

    let keys = server.json(&format!("{path}/keys")).await;
    assert_eq!(keys["keys"][0]["key"], "charged");
    assert_eq!(keys["keys"][0]["value"], "charged {\"total\":12345678901234567890}");
    let tree = server.json(&format!("{path}/children")).await;
    assert_eq!((&tree["instances"][0]["instance"], &tree["truncated"]), (&json!("order/42 ?é"), &json!(false)));
    assert_eq!(
        (&tree["instances"][1]["name"], &tree["instances"][1]["parent"]),
        (&json!("Ship"), &json!("order/42 ?é"))
    );
    let executions = server.json(&format!("{path}/executions")).await;
    assert_eq!(executions["executions"][0]["events"].as_u64(), Some(events.len() as u64));
    runtime.shutdown(Some(0)).await;
}

/// Starting again must change nothing, and messages that no runtime could act on must be rejected.
/// Without a runtime, so that what was sent stays.
#[tokio::test]
async fn messages_without_effect_are_rejected() {
    let server = Server::start().await;
    let start = json!({"instance": "a", "name": "Hello", "text": "World"});
    assert_eq!(server.post("instances", &start).await.status, 201);
    let again = server.post("instances", &start).await;
    assert_eq!((again.status, again.json()), (200, json!({"instance": "a", "existed": true, "status": "Pending"})));
    let other = server.post("instances", &json!({"instance": "a", "name": "Other"})).await;
    assert_refused(&other, 409, "an instance \"a\" of \"Hello\" exists");
    for (body, part) in [
        (json!({"instance": "", "name": "Hello"}), "between 1 and 1000 bytes"),
        (json!({"instance": "x".repeat(1_001), "name": "Hello"}), "got 1001"),
        (json!({"instance": "a::sub::1", "name": "Hello"}), "sub::"),
        (json!({"instance": "b", "name": ""}), "must not be empty"),
        (json!({"instance": "b", "name": "Hello", "input": 1, "text": "1"}), "only one of them"),
        (json!({"instance": "b", "name": "Hello", "other": 1}), "unknown field"),
    ] {
        assert_refused(&server.post("instances", &body).await, 400, part);
    }
    for path in ["instances/none/events/e", "instances/none/cancel"] {
        assert_refused(&server.post(path, &json!({})).await, 404, "there is no instance \"none\"");
    }
    for path in ["", "/history", "/executions", "/keys", "/children", "?wait_ms=600000"] {
        assert_refused(&server.get(&format!("instances/none{path}")).await, 404, "there is no instance \"none\"");
    }
    let pending = server.json("instances/a").await;
    assert_eq!((&pending["status"], &pending["name"]), (&json!("Pending"), &json!("Hello")));
    let why = pending["reason"].as_str().expect("a reason");
    assert!(why.starts_with("It was started and has not run since") && why.contains("\"Hello\""), "{why}");
    assert_eq!(server.post("instances/a/events/e", &json!({})).await.json()["status"], "Pending");

    let runtime = server.runtime().await;
    assert_eq!(server.ended("a").await["output"], "hello World");
    assert_refused(&server.post("instances/a/events/e", &json!({})).await, 409, "has ended: it is Completed");
    assert_refused(&server.post("instances/a/cancel", &json!({})).await, 409, "has ended");
    runtime.shutdown(Some(0)).await;
}

/// Every filter must find exactly its instances, newest first, in pages of any size.
/// Completed, failed, running and unstarted instances; one that nests.
#[tokio::test(flavor = "multi_thread")]
async fn lists_are_filtered_and_paged() {
    let server = Server::start().await;
    let runtime = server.runtime().await;
    for number in 0..4 {
        server.begin(&format!("hello-{number}"), "Hello", "").await;
        server.ended(&format!("hello-{number}")).await;
    }
    server.begin("fail", "Fail", "").await;
    let failed = server.ended("fail").await;
    assert_eq!(failed["status"], "Failed");
    assert!(failed["output"].as_str().is_some_and(|why| why.contains("out of stock")), "{failed}");
    runtime.shutdown(None).await;
    server.begin("late\u{1}<b>", "Unknown", "").await;

    let ids = |page: &Value| -> Vec<String> {
        let instances = page["instances"].as_array().expect("instances").iter();
        instances.map(|it| it["instance"].as_str().expect("an id").to_owned()).collect()
    };
    let list = async |query: &str| ids(&server.json(&format!("instances?{query}")).await);
    assert_eq!(list("").await, ["fail", "hello-3", "hello-2", "hello-1", "hello-0"]);
    assert_eq!(list("status=failed").await, ["fail"]);
    assert_eq!(list("name=Hello&limit=2").await, ["hello-3", "hello-2"]);
    assert_eq!(list("prefix=hello-1").await, ["hello-1"]);
    assert_eq!(list("version=1.0.0&status=Completed").await.len(), 4);
    assert_eq!(list("version=2").await, Vec::<String>::new());
    assert_eq!(list("created_before=2020-01-01").await, Vec::<String>::new());
    assert_eq!(list("created_after=2020-01-01").await.len(), 5);
    assert_eq!(list("status=Pending").await, ["late\u{1}<b>"]);
    assert_eq!(list("status=Pending&name=Unknown&prefix=late").await.len(), 1);
    assert_eq!(list("status=Pending&name=Hello").await, Vec::<String>::new());

    let (mut paged, mut after) = (Vec::new(), String::new());
    loop {
        let page = server.json(&format!("instances?limit=2&after={}", after.replace('~', "%7E"))).await;
        paged.extend(ids(&page));
        match page["next"].as_str() {
            Some(next) => next.clone_into(&mut after),
            None => break,
        }
    }
    assert_eq!(paged, list("").await);
    for (query, part) in [
        ("status=Gone", "must be Pending, Running, Completed, Failed or ContinuedAsNew, got \"Gone\""),
        ("after=x", "the `next` of an earlier page"),
        ("created_after=soon", "timestamp"),
        ("unknown=1", "unknown query parameter"),
    ] {
        assert_refused(&server.get(&format!("instances?{query}")).await, 400, part);
    }
    let figures = server.json("figures").await;
    assert_eq!(figures["messages"], 1, "{figures}");
}
