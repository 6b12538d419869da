//! `reveille template` and `reveille task`, against a running server.

use serde_json::{Value, json};

use super::fixture::{Shell, lines};
use crate::flow::fixture::Server;

const STEPS: &str = "[{name: validate, handler: {callable: a}}, \
    {name: charge, handler: {callable: b}, dependencies: [validate], retry: {max_attempts: 1}}, \
    {name: reserve, handler: {callable: c}, dependencies: [validate]}, \
    {name: ship, handler: {callable: d}, dependencies: [charge, reserve]}]";

fn template(name: &str) -> String {
    format!("name: {name}\nnamespace_name: tests\nidentity_strategy: always_unique\nsteps: {STEPS}\n")
}

async fn started() -> (Server, Shell) {
    let server = Server::start().await;
    let shell = Shell { address: server.address };
    (server, shell)
}

/// Claims the step of this name and reports on it.
async fn report(server: &Server, step: &str, what: &str, more: Value) {
    let claim = json!({"worker": "w\u{1b}1", "namespaces": ["tests"], "steps": [step]});
    let claimed = server.post("workers/claim", &claim).await.json();
    let mut body = json!({"token": claimed["steps"][0]["token"]});
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let results = server.report(what, json!([body])).await;
    assert_eq!(results[0]["ok"], true, "{results:?}");
}

/// Templates must be checked without being registered, with the position of every fault, and be shown with their graph.
/// A right one and a wrong one, from a file and from standard input.
#[tokio::test]
async fn templates_are_checked_registered_and_drawn() {
    let (_server, shell) = started().await;
    let (right, wrong) = (template("order"), template("order").replace("[validate]", "[nothing]"));
    let checked = shell.run_with(&["template", "check", "-"], &right).await.well();
    assert_eq!(checked.out, "tests/order 1.0.0: no faults, 4 steps\n");
    assert_eq!(shell.run(&["template", "list"]).await.well().out, "");
    let faults = shell.run_with(&["template", "check", "-"], &wrong).await;
    assert_eq!(faults.code, 1, "{faults:?}");
    assert!(lines(&faults.out).iter().all(|line| line.starts_with("-:4:") && line.contains("nothing")), "{faults:?}");
    assert!(faults.err.contains("1 of 1 template with faults"), "{faults:?}");

    let file = std::env::temp_dir().join(format!("reveille-template-{}.yaml", std::process::id()));
    std::fs::write(&file, &right).expect("written");
    let register = ["template", "register", file.to_str().expect("UTF-8")];
    assert_eq!(shell.run(&register).await.well().out, "tests/order 1.0.0: registered, 4 steps\n");
    assert_eq!(shell.run(&register).await.well().out, "tests/order 1.0.0: registered already, 4 steps\n");
    let newer = right.replace("name: order\n", "name: order\nversion: 1.10.0\n");
    std::fs::write(&file, newer).expect("written");
    assert_eq!(shell.json(&register).await["version"], "1.10.0");
    std::fs::write(&file, right.replace("name: order\n", "name: order\nversion: 1.9.0\n")).expect("written");
    shell.run(&register).await.well();
    std::fs::remove_file(&file).expect("removed");
    shell.run(&register).await.fails(2, "cannot read");

    let table = shell.run(&["template", "list", "--name", "order"]).await.well().out;
    assert!(table.starts_with("NAMESPACE  NAME   VERSION  STEPS") && table.lines().count() == 4, "{table}");
    let part = shell.run(&["template", "list", "--limit", "1"]).await.well();
    assert!(part.err.contains("--after "), "{part:?}");
    let shown = shell.run(&["template", "show", "tests", "order"]).await.well().out;
    assert!(shown.contains("version      1.10.0\n"), "{shown}");
    let graph = ["● validate ", "├─╮\n", "● │ charge ", "│ ● reserve ", "├─╯\n", "● ship "];
    assert!(graph.iter().all(|part| shown.contains(part)), "{shown}");
    assert_eq!(shell.json(&["template", "show", "tests", "order", "1.0.0"]).await["steps"][3]["name"], "ship");
    shell.run(&["template", "show", "tests", "none"]).await.fails(3, "no template tests/none");
    shell.run(&["template", "show", "tests", "order", "7.0.0"]).await.fails(3, "7.0.0");
}

/// A task must be submitted with its exact context, listed, and drawn with what each step waits for.
/// One step complete, one failed for good with an error that would colour the terminal.
#[tokio::test]
async fn a_task_is_drawn_with_what_each_step_waits_for() {
    let (server, shell) = started().await;
    server.template("t", STEPS).await;
    let none = shell.run(&["task", "list"]).await.well();
    assert_eq!((none.out.as_str(), none.err.trim()), ("", "no tasks"));
    let exact = "{\"n\": 12345678901234567890.10}";
    let submit = ["task", "submit", "tests", "t", exact, "--tag", "eu\u{1b}", "--priority", "-3", "--reason", "why"];
    let task = shell.run(&submit).await.well().out.trim().to_owned();
    assert!(shell.run(&["task", "show", &task, "--json"]).await.well().out.contains("12345678901234567890.10"));
    shell.run(&["task", "submit", "tests", "t", "{"]).await.fails(2, "the context is not JSON");
    shell.run(&["task", "submit", "tests", "none"]).await.fails(3, "none");

    report(&server, "validate", "complete", json!({"result": {"valid": true}})).await;
    let ready = shell.run(&["task", "show", &task]).await.well().out;
    assert!(ready.contains("○ │ charge   enqueued") && ready.contains(", waits for a worker"), "{ready}");
    report(&server, "charge", "fail", json!({"error": {"message": "no \u{1b}[31mfunds"}})).await;
    let shown = shell.run(&["task", "show", &task]).await.well().out;
    for part in [
        "● validate   complete",
        "├─╮\n",
        "✗ │ charge",
        "│ ○ reserve",
        "○ ship",
        "no \\u{1b}[31mfunds",
        "1 of 1",
        "waits for charge, reserve",
        "context    {\"n\":12345678901234567890.10}",
        "eu\\u{1b}",
    ] {
        assert!(shown.contains(part), "{part:?} is not in\n{shown}");
    }
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    let bars = shell.run(&["task", "show", &task, "--timeline"]).await.well().out;
    assert!(bars.contains('█') && bars.contains('░') && bars.contains("TIMELINE"), "{bars}");
    let step = shell.run(&["task", "show", &task, "--step", "charge"]).await.well().out;
    assert!(step.contains("\nerror\n") && step.contains("failed_for_good  w\\u{1b}1"), "{step}");
    assert_eq!(shell.json(&["task", "show", &task, "--step", "validate"]).await["result"]["valid"], true);
    shell.run(&["task", "show", &task, "--step", "none"]).await.fails(3, "none");
    shell.run(&["task", "show", "7"]).await.fails(1, "task_uuid");

    let table = shell.run(&["task", "list", "--name", "t", "--tag", "eu\u{1b}", "--from", "1h"]).await.well().out;
    assert!(table.starts_with("TASK ") && table.contains(&task) && table.contains("1 of 4"), "{table}");
    shell.run(&submit).await.well();
    let part = shell.run(&["task", "list", "--limit", "1"]).await.well();
    assert!(part.err.contains("--after "), "{part:?}");
    assert_eq!(shell.json(&["task", "list", "--state", "complete"]).await["tasks"], json!([]));
    shell.run(&["task", "list", "--state", "done"]).await.fails(2, "complete");
}

/// Watching must show every transition, end with the task, and tell by its exit code how it ended.
/// A task that is completed while it is watched, by a duplicate submission; one that is cancelled.
#[tokio::test]
async fn watching_ends_with_the_task() {
    let (server, shell) = started().await;
    server.template("t", "[{name: one, handler: {callable: a}}]").await;
    let submit = ["task", "submit", "tests", "t", "--idempotency-key", "k", "--watch"];
    let (watched, ()) = tokio::join!(shell.run(&submit), async {
        // The claim waits for the task.
        report(&server, "one", "complete", json!({"result": 1})).await;
    });
    let out = watched.well().out;
    assert!(out.contains("one  in_progress → ") && out.contains("attempt 1 by w\\u{1b}1"), "{out}");
    assert!(out.trim_end().ends_with("→ complete"), "{out}");

    let task = shell.run(&["task", "submit", "tests", "t"]).await.well().out.trim().to_owned();
    let cancelled = shell.run(&["task", "cancel", &task, "--by", "ann", "--reason", "test"]).await.well().out;
    assert_eq!(cancelled, "cancelled, 1 step cancelled\n");
    assert_eq!(shell.json(&["task", "cancel", &task]).await["repeated"], true);
    let watched = shell.run(&["task", "watch", &task, "--json"]).await;
    assert_eq!(watched.code, 1, "{watched:?}");
    assert!(watched.err.contains("the task has ended as cancelled"), "{watched:?}");
    let transitions: Vec<Value> =
        watched.out.lines().map(|line| serde_json::from_str(line).expect("a transition")).collect();
    assert_eq!(transitions.last().expect("some")["to"], "cancelled");
    shell.run(&["task", "watch", "00000000-0000-4000-8000-000000000000"]).await.fails(3, "no task");
}

/// Failed tasks and steps must be retried and resolved, one by one and by a filter that was confirmed.
/// Three tasks whose only step fails for good.
#[tokio::test]
async fn tasks_are_retried_resolved_and_deleted() {
    let (server, shell) = started().await;
    server.template("t", "[{name: one, handler: {callable: a}, retry: {max_attempts: 1}}]").await;
    let mut tasks = Vec::new();
    for _ in 0..3 {
        tasks.push(server.task(json!({})).await);
        report(&server, "one", "fail", json!({"error": {"message": "no funds"}})).await;
    }
    let retried = shell.run(&["task", "retry", &tasks[0]]).await.well().out;
    assert!(retried.contains("1 step ready"), "{retried}");
    shell.run(&["task", "retry", &tasks[0]]).await.fails(1, "");
    let step = ["task", "resolve", &tasks[1], "--step", "one"];
    let resolved = shell.run(&[&step[..], &["--result", "{\"by\": \"hand\"}"]].concat()).await.well().out;
    assert!(resolved.starts_with("error → complete"), "{resolved}");
    assert_eq!(shell.json(&["task", "show", &tasks[1], "--step", "one"]).await["result"]["by"], "hand");

    let retry = ["task", "retry", "--namespace", "tests", "--state", "error", "--error", "funds"];
    let refused = shell.run(&retry).await.fails(2, "1 task will be retried, such as ");
    assert!(refused.err.contains(&tasks[2]), "{refused:?}");
    assert_eq!(shell.run(&[&retry[..], &["-y"]].concat()).await.well().out, "1 task retried\n");
    let none = shell.run(&retry).await.well();
    assert_eq!((none.out.as_str(), none.err.trim()), ("", "no tasks match"));
    let cancel = ["task", "cancel", "--name", "t", "--state", "enqueuing_steps", "--yes", "--json"];
    assert_eq!(shell.run(&cancel).await.well().json()["done"], 2);
    shell.run(&["task", "retry"]).await.fails(2, "name a task, or a filter");
    shell.run(&["task", "retry", &tasks[0], "--name", "t"]).await.fails(2, "--name");

    shell.run(&["task", "delete", &tasks[0]]).await.fails(2, "1 task will be deleted");
    assert_eq!(shell.run(&["task", "delete", &tasks[0], "--yes"]).await.well().out, "1 task deleted\n");
    shell.run(&["task", "delete", &tasks[0], "--yes"]).await.fails(3, "no task");
    let resolved = shell.run(&["task", "resolve", &tasks[2], "--reason", "by hand"]).await.well().out;
    assert!(resolved.starts_with("resolved_manually"), "{resolved}");
}
