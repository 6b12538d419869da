//! The example worker in Python.

use std::path::Path;

use serde_json::json;

use super::fixture::Server;
use crate::process::Reveille;
use crate::python::python;

/// A worker that uses only Python's standard library runs a task, including a failure and its retry, and stops on a
/// signal. The example program, without any package, against a real server.
#[tokio::test]
async fn the_python_worker_runs_a_task() {
    let server = Server::start().await;
    let template = "name: count\nnamespace_name: words\nsteps:\n  - {name: split, handler: {callable: split}}\n  \
                    - {name: count, handler: {callable: count}, dependencies: [split]}\n  \
                    - {name: tell, handler: {callable: tell}, dependencies: [count]}\n";
    let answer = server.send("POST", "templates", &["content-type: application/yaml"], template.as_bytes()).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/flow/worker.py");
    let mut command = python("schemathesis", "python");
    command.args(["-I", "-S"]).arg(program).args([format!("http://{}", server.address).as_str(), "words"]);
    let worker = Reveille::start(command);
    worker.line("ready").await;

    let request =
        json!({"namespace": "words", "name": "count", "version": "1.0.0", "context": {"text": "to be or not to be"}});
    let task = server.post("tasks", &request).await.json()["task_uuid"].as_str().expect("a task").to_owned();
    let done = server.get(&format!("tasks/{task}?wait_ms=60000")).await.json();
    assert_eq!(done["status"], "complete", "{done}");
    let step = |at: usize| &done["steps"][at];
    assert_eq!((&step(1)["attempts"], &step(1)["result"]), (&json!(2), &json!({"count": 6})));
    assert_eq!((&step(2)["result"], &step(2)["worker"]), (&json!("6 words"), &json!("worker.py")));

    worker.signal("TERM").await;
    let ended = worker.ended().await;
    assert!(ended.status.success() && ended.output.contains("done"), "{}: {}", ended.status, ended.output);
    crate::serve::quiet(server.reveille).await;
}
