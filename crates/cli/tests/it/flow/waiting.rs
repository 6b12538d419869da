//! Why steps are not running, the workers, and the attempts of a task.

use serde_json::{Value, json};

use super::fixture::{JSON, Server, claim, text};
use crate::http::assert_refused;

/// The reason why a step is not running, and the sentence.
async fn why(server: &Server, task: &str, step: &str) -> (String, String, Value) {
    let answer = server.get(&format!("tasks/{task}/workflow_steps/{step}/waiting")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let why = answer.json();
    (text(&why["reason"]), text(&why["sentence"]), why)
}

/// A step says what it waits for, from its submission to its end.
/// One task is followed: no worker, a limit, shadow mode, a worker, a retry, a permanent failure, its dependencies.
#[tokio::test]
async fn a_step_says_why_it_is_not_running() {
    let server = Server::of("[{name: a, retry: {max_attempts: 2}}, {name: b, dependencies: [a]}]").await;
    let task = server.task(json!({})).await;
    let (reason, sentence, _) = why(&server, &task, "a").await;
    assert_eq!(reason, "worker", "{sentence}");
    let (reason, sentence, waits) = why(&server, &task, "b").await;
    assert_eq!((reason.as_str(), sentence.as_str()), ("dependencies", "It waits for step \"a\" (ready)."));
    assert_eq!(waits["waits_for"], json!([{"name": "a", "state": "enqueued"}]));

    let put = async |path: &str, body: Value| {
        let answer = server.send("PUT", path, &[JSON], body.to_string().as_bytes()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    };
    put("limits", json!({"namespace": "tests", "step": "a", "max_in_progress": 0})).await;
    let (reason, sentence, waits) = why(&server, &task, "a").await;
    assert_eq!((reason.as_str(), &waits["limit"]["max_in_progress"]), ("limit", &json!(0)), "{sentence}");
    put("limits", json!({"namespace": "tests", "step": "a", "max_in_progress": null})).await;
    put("namespaces/tests", json!({"mode": "shadow"})).await;
    assert_eq!(why(&server, &task, "a").await.0, "shadow");
    put("namespaces/tests", json!({"mode": "event_driven"})).await;

    let step = server.now(1).await.remove(0);
    let (reason, sentence, waits) = why(&server, &task, "a").await;
    assert_eq!((reason.as_str(), &waits["worker"]), ("attempt", &json!("tester")));
    assert!(sentence.starts_with("Worker \"tester\" runs attempt 1 of 2; its lease is valid until 2"), "{sentence}");
    let error = json!({"message": "broken", "retry_delay_ms": 3_600_000});
    server.report("fail", json!([{"token": step["token"], "error": error}])).await;
    let (reason, sentence, waits) = why(&server, &task, "a").await;
    assert_eq!((reason.as_str(), waits["until"].is_string()), ("retry", true));
    assert!(sentence.starts_with("Attempt 1 of 2 failed; the next one is due at 2"), "{sentence}");

    let all = server.get(&format!("tasks/{task}/waiting")).await.json();
    let reasons: Vec<&Value> = all["steps"].as_array().expect("steps").iter().map(|step| &step["reason"]).collect();
    assert_eq!((reasons, &all["more"]), (vec![&json!("retry"), &json!("dependencies")], &json!(false)));
    let complete = json!({"type": "complete_manually", "result": 1, "by": "ann"});
    let path = format!("tasks/{task}/workflow_steps/a");
    let answer = server.send("PATCH", &path, &[JSON], complete.to_string().as_bytes()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(why(&server, &task, "a").await.0, "ended");
    assert_refused(&server.get(&format!("tasks/{task}/workflow_steps/x/waiting")).await, 404, "no step");
    assert_refused(&server.get("tasks/00000000-0000-0000-0000-000000000000/waiting").await, 404, "0000");
    assert_refused(&server.get("tasks/x/waiting").await, 400, "UUID");
}

/// A step that a waiting worker would claim, and one that an earlier failure stops, say so.
/// The worker waits for the step of another name.
#[tokio::test]
async fn workers_are_listed_with_what_they_wait_for_and_hold() {
    let server = Server::of("[{name: a}, {name: b}]").await;
    let waiting = {
        let client = server.client.clone();
        let mut body = claim(1, 600_000);
        body["worker"] = json!("patient");
        body["steps"] = json!(["z"]);
        tokio::spawn(async move { client.post("workers/claim", &body).await })
    };
    server.until_waiting(1).await;
    let task = server.task(json!({})).await;
    let held = server.now(1).await.remove(0);
    let workers = server.get("workers").await.json();
    let workers = workers["workers"].as_array().expect("workers");
    assert_eq!(workers.len(), 2, "{workers:?}");
    let claims = &workers[0]["claims"][0];
    assert_eq!(
        (&workers[0]["worker"], &claims["steps"], &claims["waiting"]),
        (&json!("patient"), &json!(["z"]), &json!(1))
    );
    assert_eq!((&workers[1]["worker"], &workers[1]["in_progress"]), (&json!("tester"), &json!(1)));
    let step = &workers[1]["steps"][0];
    assert_eq!((&step["task_uuid"], &step["step"], &step["attempt"]), (&json!(task), &held["name"], &json!(1)));
    let of =
        async |query: &str| server.get(&format!("workers?{query}")).await.json()["workers"].as_array().map(Vec::len);
    assert_eq!(
        (of("step=z").await, of("namespace=other").await, of("namespace=tests").await),
        (Some(2), Some(0), Some(2))
    );

    server.report("fail", json!([{"token": held["token"], "error": {"message": "no", "retryable": false}}])).await;
    let other = if held["name"] == "a" { "b" } else { "a" };
    assert_eq!(why(&server, &task, other).await.0, "ended");
    assert_eq!(why(&server, &task, held["name"].as_str().expect("a name")).await.0, "failed");
    waiting.abort();
}

/// The attempts of a task are returned page by page, with those in progress.
#[tokio::test]
async fn the_attempts_of_a_task_are_listed() {
    let server = Server::of("[{name: a, retry: {backoff: none}}, {name: b, dependencies: [a]}]").await;
    let task = server.task(json!({})).await;
    let step = server.now(1).await.remove(0);
    server.report("fail", json!([{"token": step["token"], "error": {"message": "broken"}}])).await;
    server.report("complete", json!([{"token": server.now(1).await.remove(0)["token"]}])).await;
    server.now(1).await;
    let (mut outcomes, mut after) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("tasks/{task}/attempts?limit=2{after}")).await.json();
        for attempt in page["attempts"].as_array().expect("attempts") {
            outcomes.push(format!("{} {} {}", text(&attempt["step"]), attempt["attempt"], text(&attempt["outcome"])));
        }
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    outcomes.sort();
    assert_eq!(outcomes, ["a 1 failed", "a 2 complete", "b 1 in_progress"]);
    assert_refused(&server.get(&format!("tasks/{task}/attempts?after=x")).await, 400, "`after`");
    assert_refused(&server.get("tasks/00000000-0000-0000-0000-000000000000/attempts").await, 404, "0000");
}
