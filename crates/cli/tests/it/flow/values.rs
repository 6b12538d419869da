//! Requests that are too expensive or invalid: they are rejected with a clear message, and the server keeps working.

use serde_json::{Map, Value, json};

use super::fixture::{JSON, Server, claim, wanted};
use crate::http::{assert_refused, get};

/// The memory that the server may use after these attacks, in bytes: without limits the first one took 23 GB.
const RESIDENT_MAX: u64 = 1 << 30;

fn template(name: &str, input_schema: &Value) -> Value {
    json!({
        "name": name, "namespace": "tests", "identity_strategy": "always_unique",
        "input_schema": input_schema, "steps": [{"name": "a", "result_schema": input_schema}]
    })
}

/// Definitions that each refer to the next one twice.
fn doubling(levels: usize) -> Value {
    let mut definitions = Map::new();
    for level in 0..levels {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        definitions.insert(format!("d{level}"), json!({"anyOf": [next, next]}));
    }
    definitions.insert(format!("d{levels}"), json!({"type": "string"}));
    json!({"$defs": definitions, "$ref": "#/$defs/d0"})
}

/// A schema that doubles per level is rejected at registration. A schema that is expensive for certain values is
/// registered, and those values are rejected. The server keeps answering meanwhile. The most expensive values within
/// the limits are sent concurrently, and `/health/live` is requested until all are answered.
#[tokio::test]
async fn expensive_schemas_do_not_stop_the_server() {
    let server = Server::start().await;
    for levels in [16, 24, 40] {
        let answer = server.post("templates", &template("doubling", &doubling(levels))).await;
        assert_refused(&answer, 400, "expands to more than 100000 subschemas");
    }
    let listed = json!({"items": {"enum": (0..20_000).collect::<Vec<_>>()}});
    assert_eq!(server.post("templates", &template("listed", &listed)).await.status, 201);
    let long = json!(vec![-1.5; 50_000]);
    let attacks = (0..4).map(|_| {
        let (client, long) = (server.client.clone(), long.clone());
        tokio::spawn(async move { client.post("tasks", &wanted("listed", long)).await })
    });
    let attacks: Vec<_> = attacks.collect();
    while !attacks.iter().all(|attack| attack.is_finished()) {
        assert_eq!(get(server.address, "/health/live").await.status, 200);
    }
    for attack in attacks {
        let answer = attack.await.expect("no panic");
        assert_refused(&answer, 400, "context");
        assert!(answer.body.len() < 2_000, "{}", answer.body);
    }
    let resident = server.reveille.resident().unwrap_or_default();
    assert!(resident < RESIDENT_MAX, "{resident} bytes");
}

/// A cycle of thousands of steps is reported in a short message.
#[tokio::test]
async fn a_long_cycle_is_reported_in_short() {
    let server = Server::start().await;
    let steps: Vec<Value> = (0..5_000)
        .map(|step| json!({"name": format!("step-{step}"), "dependencies": [format!("step-{}", (step + 1) % 5_000)]}))
        .collect();
    let answer = server.post("templates", &json!({"name": "t", "namespace": "tests", "steps": steps})).await;
    assert_refused(&answer, 400, "4995 more");
    assert!(answer.body.len() < 2_000, "{} bytes", answer.body.len());
}

/// Unknown query parameters are rejected on every route, known ones are not.
#[tokio::test]
async fn unknown_query_parameters_are_rejected() {
    let server = Server::of("[{name: a}]").await;
    let task = server.task(json!({})).await;
    for path in [
        "tasks",
        "templates",
        "templates/tests/t/1.0.0",
        "namespaces",
        "limits",
        "dlq",
        "domain_events",
        "schedules",
        "analytics/performance",
        "analytics/bottlenecks",
        &format!("tasks/{task}"),
        &format!("tasks/{task}/summary"),
        &format!("tasks/{task}/transitions"),
        &format!("tasks/{task}/workflow_steps"),
        &format!("tasks/{task}/workflow_steps/a"),
        &format!("tasks/{task}/workflow_steps/a/audit"),
    ] {
        assert_eq!(server.get(path).await.status, 200, "{path}");
        assert_refused(&server.get(&format!("{path}?namespce=x")).await, 400, "unknown query parameter `namespce`");
    }
    let answer = server.send("POST", "workers/claim?wait=1", &[JSON], claim(1, 0).to_string().as_bytes()).await;
    assert_refused(&answer, 400, "unknown query parameter `wait`");
    assert_refused(&server.send("DELETE", &format!("tasks/{task}?force=1"), &[], b"").await, 400, "`force`");
    assert_eq!(server.get("tasks?namespace=tests&limit=5").await.status, 200);
}

/// A limit is removed by null, not by leaving the number out.
#[tokio::test]
async fn a_limit_requires_a_number_or_null() {
    let server = Server::of("[{name: a}]").await;
    let set = async |body: Value| server.send("PUT", "limits", &[JSON], body.to_string().as_bytes()).await;
    assert_eq!(set(json!({"namespace": "tests", "max_in_progress": 2})).await.status, 200);
    assert_refused(&set(json!({"namespace": "tests"})).await, 400, "missing parameter `max_in_progress`");
    assert_eq!(server.get("limits").await.json()["limits"][0]["max_in_progress"], 2);
    assert_eq!(set(json!({"namespace": "tests", "max_in_progress": null})).await.json()["limits"], json!([]));
}

/// Bodies of the wrong type are rejected on every route in terms of the API: messages have no Rust type names, and a
/// list is not accepted as an object.
#[tokio::test]
async fn no_message_names_a_rust_type() {
    const NAMES: [&str; 11] =
        ["struct", "enum", "tuple", "variant", "u16", "u32", "u64", "i16", "usize", "Wish", "Submission"];
    let server = Server::of("[{name: a}]").await;
    let task = server.task(json!({})).await;
    let token = server.now(1).await[0]["token"].clone();
    let routes = [
        ("POST", "tasks".to_owned()),
        ("POST", "tasks/bulk".to_owned()),
        ("POST", "templates".to_owned()),
        ("POST", "workers/claim".to_owned()),
        ("POST", "workers/complete".to_owned()),
        ("POST", "workers/fail".to_owned()),
        ("POST", "workers/heartbeat".to_owned()),
        ("POST", "workers/checkpoint".to_owned()),
        ("POST", "workers/release".to_owned()),
        ("PUT", "limits".to_owned()),
        ("PUT", "namespaces/tests".to_owned()),
        ("PUT", "schedules".to_owned()),
        ("PATCH", format!("tasks/{task}")),
        ("PATCH", format!("tasks/{task}/workflow_steps/a")),
        ("PATCH", "dlq/1".to_owned()),
    ];
    let bodies = [
        json!([]),
        json!(["tests"]),
        json!(1),
        json!("x"),
        json!({"steps": 1}),
        json!({"steps": [[]]}),
        json!({"steps": [1]}),
        json!({"steps": [{"token": token, "error": []}]}),
        json!({"steps": [{"token": token, "error": {"message": 1}}]}),
        json!({"steps": [{"token": token, "error": {"message": "m", "colour": "red"}}]}),
        json!({"steps": [{"token": token, "lease_ms": -1}]}),
        json!({"namespace": 1}),
        json!({"name": {}}),
        json!({"priority": 1e9}),
        json!({"priority": 99_999}),
        json!({"filter": [], "operation": 1, "by": "x"}),
        json!({"filter": {}, "operation": {"type": "odd"}, "by": "x"}),
        json!({"type": 7, "by": "x"}),
        json!({"type": "odd", "by": "x"}),
        json!({"max_in_progress": -1, "namespace": "tests"}),
        json!({"namespaces": {}, "worker": "w"}),
        json!({"colour": "red"}),
    ];
    for (method, path) in &routes {
        for body in &bodies {
            let answer = server.send(method, path, &[JSON], body.to_string().as_bytes()).await;
            let refused = answer.status >= 400 || answer.body.contains("\"ok\":false");
            assert!(refused && answer.status < 500, "{method} {path} {body}: {answer:?}");
            for name in NAMES {
                assert!(!answer.body.contains(name), "{method} {path} {body}: {name:?} in {}", answer.body);
            }
        }
    }
    for path in ["dlq/one", "tasks?limit=x", "templates?after=-1"] {
        let answer = server.get(path).await;
        assert!(answer.status == 400 && NAMES.iter().all(|name| !answer.body.contains(name)), "{path}: {answer:?}");
    }
    // The worker still holds the step.
    assert_eq!(server.report("complete", json!([{"token": token, "result": 1}])).await[0]["ok"], true);
}

/// Numbers beyond 64 bits pass through the API without losing a digit.
#[tokio::test]
async fn numbers_pass_through_unchanged() {
    const LARGE: &str = "100000000000000000001";
    let server = Server::of("[{name: a}, {name: b, dependencies: [a]}]").await;
    let body =
        format!("{{\"namespace\":\"tests\",\"name\":\"t\",\"version\":\"1.0.0\",\"context\":{{\"id\":{LARGE}}}}}");
    let made = server.send("POST", "tasks", &[JSON], body.as_bytes()).await;
    assert_eq!(made.status, 201, "{made:?}");
    let claimed = server.post("workers/claim", &claim(1, 0)).await;
    assert!(claimed.body.contains(&format!("\"context\":{{\"id\":{LARGE}}}")), "{}", claimed.body);
    let token = &claimed.json()["steps"][0]["token"];
    let done = format!("{{\"steps\":[{{\"token\":{token},\"result\":[{LARGE}]}}]}}");
    let done = server.send("POST", "workers/complete", &[JSON], done.as_bytes()).await;
    assert_eq!(done.json()["results"][0]["ok"], true, "{done:?}");
    let claimed = server.post("workers/claim", &claim(1, 0)).await;
    assert!(claimed.body.contains(&format!("\"a\":[{LARGE}]")), "{}", claimed.body);
}
