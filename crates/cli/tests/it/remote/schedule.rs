//! `reveille schedule` and `reveille namespace`, against a running server.

use serde_json::json;

use super::fixture::{Shell, lines};
use crate::flow::fixture::Server;

/// A schedule must be created, listed, shown, paused, run and deleted, whatever its name.
/// One with a cron expression and a time zone.
#[tokio::test]
async fn a_schedule_is_created_paused_run_and_deleted() {
    let server = Server::of("[{name: one, handler: {callable: a}}]").await;
    let shell = Shell { address: server.address };
    let odd = "a/b?c#d%e \"f\" 🎉";
    let set = ["schedule", "set", "tests", odd, "--template", "t", "--version", "1.0.0"];
    let cron =
        [&set[..], &["--cron", "0 9 * * 1-5", "--time-zone", "Europe/Berlin", "--context", "{\"n\": 1.10}"]].concat();
    assert!(shell.run(&cron).await.well().out.starts_with("next: 20"));
    shell.run(&set).await.fails(2, "--cron");
    shell.run(&[&set[..], &["--cron", "nonsense"]].concat()).await.fails(1, "cron");

    let table = shell.run(&["schedule", "list"]).await.well().out;
    assert!(lines(&table)[1].contains("a/b?c#d%e \"f\" 🎉  t 1.0.0   0 9 * * 1-5 (Europe/Berlin)"), "{table}");
    let shown = shell.run(&["schedule", "show", "tests", odd, "--upcoming", "2"]).await.well().out;
    assert!(shown.contains("context       {\"n\":1.10}\n"), "{shown}");
    assert_eq!(shown.lines().rev().take(2).filter(|line| line.contains("(in ")).count(), 2, "{shown}");

    assert_eq!(shell.run(&["schedule", "pause", "tests", odd]).await.well().out, "next: paused\n");
    assert_eq!(shell.json(&["schedule", "list", "--active"]).await["schedules"], json!([]));
    assert_eq!(shell.json(&["schedule", "list", "--paused"]).await["schedules"][0]["name"], odd);
    let task = shell.run(&["schedule", "run", "tests", odd]).await.well().out;
    assert_eq!(shell.json(&["task", "show", task.trim()]).await["name"], "t");
    assert_eq!(shell.json(&["schedule", "resume", "tests", odd]).await["paused"], false);

    let refused = shell.run(&["schedule", "delete", "tests", odd]).await.fails(2, "the schedule tests/a/b?c#d%e");
    assert!(refused.err.contains("is deleted: add --yes"), "{refused:?}");
    assert_eq!(shell.run(&["schedule", "delete", "tests", odd, "--yes"]).await.well().out, "deleted\n");
    for command in ["show", "pause", "resume", "run", "delete"] {
        shell.run(&["schedule", command, "tests", odd]).await.fails(3, "no schedule");
    }
}

/// Namespaces must be listed, created, changed and limited.
/// One with an odd name.
#[tokio::test]
async fn a_namespace_is_set_and_limited() {
    let server = Server::start().await;
    let shell = Shell { address: server.address };
    let none = shell.run(&["namespace", "list"]).await.well();
    assert_eq!((none.out.as_str(), none.err.trim()), ("", "no namespaces"));
    let odd = "n/m \u{1b}[31m";
    let set = ["namespace", "set", odd, "--mode", "polling", "--poll-ms", "5000", "--retention-seconds", "none"];
    let shown = shell.run(&set).await.well().out;
    assert!(shown.contains("mode              polling\n") && shown.contains("retention         forever\n"), "{shown}");
    let changed = shell.json(&["namespace", "set", odd, "--retention-seconds", "60", "--announces", "true"]).await;
    assert_eq!((&changed["retention_seconds"], &changed["poll_ms"]), (&json!(60), &json!(5000)));
    let table = shell.run(&["namespace", "list"]).await.well().out;
    assert!(lines(&table)[1].starts_with("n/m \\u{1b}[31m  polling  table     1m"), "{table}");

    let limit = ["namespace", "limit", odd, "2", "--step", "charge"];
    assert!(lines(&shell.run(&limit).await.well().out)[1].starts_with("charge        0      2"));
    let shown = shell.run(&["namespace", "show", odd]).await.well().out;
    assert!(shown.contains("\ncharge ") && !shown.contains('\u{1b}'), "{shown}");
    assert_eq!(shell.json(&["namespace", "show", odd]).await["mode"], "polling");
    let removed = shell.run(&["namespace", "limit", odd, "none", "--step", "charge"]).await.well();
    assert_eq!((removed.out.as_str(), removed.err.trim()), ("", "no limits"));
    shell.run(&["namespace", "show", "none"]).await.fails(3, "there is no namespace");
    shell.run(&["namespace", "limit", odd, "few"]).await.fails(2, "`none`");
}
