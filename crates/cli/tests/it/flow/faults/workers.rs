//! Workers that are killed, and workers that stall.

use std::path::Path;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::fixture::{Client, Server, text, wanted};
use crate::http::{Answer, eventually};
use crate::process::{PATIENCE, Reveille};
use crate::python::python;

/// A worker process of the namespace `tests`; its steps run until it gets SIGUSR1.
async fn worker(client: &Client, name: &str, at_once: usize) -> Reveille {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = python("schemathesis", "python");
    // No bytecode files beside the example.
    command.args(["-I", "-S", "-B"]).arg(root.join("tests/it/flow/faults/worker.py"));
    command.arg(root.join("../../examples/flow/worker.py"));
    command.args([&format!("http://{}", client.address), "tests", name, &at_once.to_string()]);
    let worker = Reveille::start(command);
    worker.line("ready").await;
    worker
}

/// The attempts of a step: outcomes and workers.
async fn attempts(client: &Client, task: &str, step: &str) -> (Vec<Value>, Value) {
    let audit = client.get(&format!("tasks/{task}/workflow_steps/{step}/audit")).await.json()["attempts"].clone();
    let attempt = |it: &Value| json!([it["attempt"], it["outcome"], it["worker"]]);
    (audit.as_array().expect("attempts").iter().map(attempt).collect(), audit)
}

/// Waits for the end of a task.
async fn end_of(client: &Client, task: &str) -> Value {
    client.get(&format!("tasks/{task}?wait_ms={}", PATIENCE.as_millis())).await.json()
}

/// A worker that is killed during a step costs its lease and one attempt: the step is due again when the lease ends, or
/// fails if no attempt is left. A worker holds a step with a second attempt and one without, and is killed; another
/// worker waits already. The delay of the second attempt is measured by the database's clock.
#[tokio::test]
async fn a_killed_workers_step_is_due_again_when_its_lease_ends() {
    let server = Server::of("[{name: a, handler: {callable: hold}, retry: {max_attempts: 2, backoff: none}}]").await;
    server.template("last", "[{name: z, handler: {callable: hold}, retry: {max_attempts: 1}}]").await;
    let killed = worker(&server, "killed", 2).await;
    let again = server.task(json!({})).await;
    let last = text(&server.post("tasks", &wanted("last", json!({}))).await.json()["task_uuid"]);
    killed.line("has a, attempt 1").await;
    killed.line("has z, attempt 1").await;
    let other = worker(&server, "other", 1).await;
    server.until_waiting(1).await;

    let since = Instant::now();
    killed.signal("KILL").await;
    other.line("has a, attempt 2").await;
    let elsewhere = since.elapsed();
    other.signal("USR1").await;
    let done = end_of(&server, &again).await;
    assert_eq!((&done["status"], &done["steps"][0]["result"]), (&json!("complete"), &json!({"by": "other"})), "{done}");
    let (all, audit) = attempts(&server, &again, "a").await;
    assert_eq!(all, [json!([1, "lease_ended", "killed"]), json!([2, "complete", "other"])]);
    let late = audit[1]["waited_ms"].as_u64().expect("a number");
    println!("begun elsewhere {elsewhere:?} after the kill, {late} ms after the end of a lease of 2 s");
    assert!(late < 10_000, "{late} ms");
    assert!(!killed.ended().await.status.success());

    let failed = end_of(&server, &last).await;
    assert_eq!((&failed["status"], &failed["steps"][0]["attempts"]), (&json!("error"), &json!(1)), "{failed}");
    assert_eq!(attempts(&server, &last, "z").await.0, [json!([1, "lease_ended", "killed"])]);
    let letters = server.get(&format!("dlq?task_uuid={last}")).await.json();
    assert_eq!(letters["entries"][0]["reason"], "retries_exhausted", "{letters}");
}

/// A worker that stalls for longer than its lease loses the step: its report is rejected, both while another worker
/// holds the step and later. A worker is paused by a signal, another one gets the step, and the first one continues and
/// reports a result. Then the second one does. The domain event is published once.
#[tokio::test]
async fn a_stalled_worker_is_rejected() {
    let steps = "[{name: a, handler: {callable: hold}, retry: {max_attempts: 5, backoff: none}, publishes_events: [{name: done}]}, \
                  {name: b, handler: {callable: hold}, dependencies: [a]}]";
    let server = Server::of(steps).await;
    let still = worker(&server, "still", 1).await;
    let task = server.task(json!({})).await;
    still.line("has a, attempt 1").await;
    let other = worker(&server, "other", 1).await;
    server.until_waiting(1).await;

    still.signal("STOP").await;
    other.line("has a, attempt 2").await;
    still.signal("CONT").await;
    still.signal("USR1").await;
    let refused = still.line("complete: ").await;
    assert!(refused.contains("does not hold the step"), "{refused}");
    let open = server.get(&format!("tasks/{task}")).await.json();
    assert_eq!((&open["completed_steps"], &open["steps"][0]["result"]), (&json!(0), &Value::Null), "{open}");
    other.signal("USR1").await;
    let done = end_of(&server, &task).await;
    assert_eq!((&done["status"], &done["steps"][0]["result"]), (&json!("complete"), &json!({"by": "other"})), "{done}");
    let (all, _) = attempts(&server, &task, "a").await;
    assert_eq!(all, [json!([1, "lease_ended", "still"]), json!([2, "complete", "other"])]);
    // On a busy machine the lease of `b` may end, too.
    let (all, _) = attempts(&server, &task, "b").await;
    assert_eq!(all.iter().filter(|attempt| attempt[1] == "complete").count(), 1, "{all:?}");
    // Events are visible only after all older transactions, of any schema, have ended.
    let reply = |answer: &Answer| answer.json()["events"] != json!([]);
    let reply = eventually(server.address, "/v1/domain_events", reply).await.json();
    assert_eq!(reply["events"].as_array().map(Vec::len), Some(1), "{reply}");
}
