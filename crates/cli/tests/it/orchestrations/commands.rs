//! `reveille durable …`.

use serde_json::json;

use super::fixture::Server;

/// Everything that the API does must be possible from the command line, with tables for people and the server's answer
/// for programs.
/// One order from its start to its deletion.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_lives_on_the_command_line() {
    let server = Server::start().await;
    let runtime = server.runtime().await;
    let shell = &server.shell;
    assert_eq!(shell.run(&["durable", "list"]).await.well().err.trim(), "no instances");
    let id = "order \u{1b}[31m/1";
    let started = shell.run(&["durable", "start", id, "Order", "--input", "{\"total\": 1.10}"]).await.well();
    assert_eq!(started.out.trim_end(), "order \\u{1b}[31m/1");
    let again = shell.run(&["durable", "start", id, "Order"]).await.well();
    assert!(again.err.contains("had been started before"), "{again:?}");
    shell.run(&["durable", "start", "x", "Order", "--input", "{"]).await.fails(2, "--input: not JSON");
    server.ended("ship-of-order").await;

    let raised = shell.run(&["durable", "raise", id, "Paid", "--text", "cash"]).await.well();
    assert!(raised.out.contains("Paid was sent to order"), "{raised:?}");
    let shown = shell.run(&["durable", "show", id, "--wait", "60s"]).await.well().out;
    for part in ["Completed", "It completed at", "charged {\"total\": 1.10}", "cash", "KEY", "└─ ship-of-order  Ship"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains('\u{1b}'), "{shown}");
    let table = shell.run(&["durable", "list", "--status", "completed", "--name", "Order"]).await.well().out;
    assert!(
        table.starts_with("INSTANCE") && table.contains("order \\u{1b}[31m/1") && table.lines().count() == 2,
        "{table}"
    );
    let list = shell.json(&["durable", "list", "--since", "1h"]).await;
    assert_eq!(list["instances"].as_array().map(Vec::len), Some(2));

    let history = shell.run(&["durable", "history", id]).await.well().out;
    for part in ["ActivityCompleted", "Charge", "SubOrchestrationCompleted", "+0ms", "█"] {
        assert!(history.contains(part), "{part}: {history}");
    }
    let raw = shell.run(&["durable", "history", id, "--raw"]).await.well().out;
    assert!(raw.contains("cash"), "{raw}");
    assert_eq!(shell.json(&["durable", "history", id]).await["execution"], 1);

    shell.run(&["durable", "show", "none"]).await.fails(3, "there is no instance \"none\"");
    shell.run(&["durable", "raise", id, "Paid"]).await.fails(1, "has ended");
    shell.run(&["durable", "delete", id]).await.fails(2, "2 instances, 2 executions");
    let deleted = shell.run(&["durable", "delete", id, "--yes"]).await.well().out;
    assert!(deleted.contains("2 instances, 2 executions"), "{deleted}");
    runtime.shutdown(Some(0)).await;
}

/// Cancelling and pruning must ask first, and prune step by step to the end.
/// Without a terminal and without `--yes` nothing happens; a hundred and thirty instances are more than one step.
#[tokio::test(flavor = "multi_thread")]
async fn what_destroys_asks_first() {
    let server = Server::start().await;
    let runtime = server.runtime().await;
    let shell = &server.shell;
    server.begin("order", "Order", "7").await;
    server.ended("ship-of-order").await;
    shell.run(&["durable", "cancel", "order"]).await.fails(2, "--yes");
    let cancel = ["durable", "cancel", "order", "--reason", "twice", "--yes"];
    assert!(shell.run(&cancel).await.well().out.contains("was asked to end"));
    assert_eq!(server.ended("order").await["status"], "Failed");

    for number in 0..130 {
        server.begin(&format!("hello-{number}"), "Hello", "").await;
    }
    for number in 0..130 {
        server.ended(&format!("hello-{number}")).await;
    }
    runtime.shutdown(None).await;
    let prune = ["durable", "prune", "--name", "Hello"];
    let planned = shell.run(&[&prune[..], &["--dry-run"]].concat()).await.well();
    assert!(planned.out.contains("hello-0") && planned.err.contains("30 instances match"), "{planned:?}");
    let asked = shell.run(&prune).await;
    assert_eq!(asked.code, 2, "{asked:?}");
    assert!(asked.err.contains("130 ended instances will be deleted"), "{asked:?}");
    let done = shell.run(&[&prune[..], &["--yes"]].concat()).await.well();
    assert!(done.out.contains("deleted 130 instances, 130 executions"), "{done:?}");
    assert_eq!(shell.run(&prune).await.well().err.trim(), "nothing to delete");
    let rest = shell.json(&["durable", "prune", "--yes", "--status", "Failed"]).await;
    assert_eq!(rest["instances"], json!(2), "{rest}");
}
