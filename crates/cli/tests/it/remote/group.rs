//! `reveille group` and `reveille dlq`, against a running server.

use serde_json::json;

use super::fixture::{Shell, lines};
use crate::queue::fixture::Server;

const ODD: &str = "g/h?i#j%k \u{1b}[31m";

/// Consumer groups must be listed with their lag, shown, moved and deleted, whatever their names.
/// A group that has read one of three messages.
#[tokio::test]
async fn groups_are_listed_moved_and_deleted() {
    let server = Server::start().await;
    let shell = Shell { address: server.address };
    let none = shell.run(&["group", "list"]).await.well();
    assert_eq!((none.out.as_str(), none.err.trim()), ("", "no consumer groups"));
    server.push("a/b", "p", &["t1", "t2", "t3"]).await;
    shell.run(&["queue", "pop", "a/b", "--group", ODD, "--ack"]).await.well();

    for list in [&["group", "list"][..], &["group", "list", "--queue", "a/b"]] {
        let table = shell.run(list).await.well().out;
        let rows = lines(&table);
        assert!(rows[0].starts_with("GROUP") && rows[0].contains("QUEUE  STATE    LAG"), "{table}");
        assert!(rows[1].starts_with("g/h?i#j%k \\u{1b}[31m  a/b    lagging    2"), "{table}");
        assert_eq!(shell.json(list).await[0]["totalLag"], 2);
    }
    let shown = shell.run(&["group", "show", ODD]).await.well().out;
    assert!(shown.contains("1 of 1 partitions") && shown.contains("\nGROUP") && !shown.contains('\u{1b}'), "{shown}");
    shell.run(&["group", "show", "none"]).await.fails(3, "there is no consumer group");
    assert_eq!(shell.json(&["group", "lagging", "--seconds", "0"]).await[0]["offsetLag"], 2);
    let none = shell.run(&["group", "lagging", "--seconds", "600"]).await.well();
    assert_eq!((none.out.as_str(), none.err.trim()), ("", "no message has waited for 10m"));

    assert_eq!(shell.run(&["group", "seek", ODD, "a/b", "--end"]).await.well().out, "moved in 1 partition\n");
    assert_eq!(shell.json(&["group", "show", ODD]).await["queues"][0]["totalLag"], 0);
    let back = ["queue", "seek", "a/b", "--group", ODD, "--to", "1h", "--partition", "p"];
    assert_eq!(shell.json(&back).await["partitionsUpdated"], 1);
    assert_eq!(shell.json(&["group", "show", ODD]).await["queues"][0]["totalLag"], 3);
    shell.run(&["queue", "seek", "a/b", "--end"]).await.fails(3, "no consumer group");
    shell.run(&["group", "seek", ODD, "a/b"]).await.fails(2, "--to");
    shell.run(&["group", "seek", ODD, "a/b", "--to", "soon"]).await.fails(2, "15m, 2h or 7d");

    let subscribed = shell.run(&["group", "subscribe", ODD, "2026-01-01"]).await.well().out;
    assert_eq!(subscribed, "begins at 2026-01-01T00:00:00.000000Z in 1 queue\n");
    let refused = shell.run(&["group", "delete", ODD]).await.fails(2, "it has not consumed 3 messages");
    assert!(!refused.err.contains('\u{1b}'), "{refused:?}");
    assert_eq!(
        shell.run(&["group", "delete", ODD, "--queue", "a/b", "--yes"]).await.well().out,
        "deleted in 1 queue\n"
    );
    shell.run(&["group", "delete", ODD, "--yes"]).await.fails(3, "there is no consumer group");
}

/// Dead letters must be listed with their errors, replayed and deleted by a filter that was confirmed.
/// A message that fails twice, with an error that would colour the terminal.
#[tokio::test]
async fn dead_letters_are_listed_replayed_and_purged() {
    let server = Server::start().await;
    let shell = Shell { address: server.address };
    let none = shell.run(&["dlq", "list"]).await.well();
    assert_eq!((none.out.as_str(), none.err.trim()), ("", "no dead letters"));
    server.push("orders", "p", &["t1", "t2"]).await;
    for _ in 0..2 {
        let popped = server.pop("queue/orders").await;
        let message = &popped["messages"][0];
        let ack = json!({"transactionId": message["transactionId"], "partitionId": message["partitionId"],
            "leaseId": message["leaseId"], "status": "dlq", "error": "bad \u{1b}[31m\nnews"});
        assert_eq!(server.post("ack", &ack).await.status, 200);
    }
    let table = shell.run(&["dlq", "list", "--queue", "orders"]).await.well().out;
    let rows = lines(&table);
    assert!(rows[0].starts_with("NUMBER  QUEUE   PARTITION  TRANSACTION") && rows.len() == 3, "{table}");
    assert!(rows[1].contains("bad \\u{1b}[31m\\nnews") && rows[1].ends_with("\"t2\""), "{table}");
    let part = shell.run(&["dlq", "list", "--limit", "1"]).await.well();
    assert!(part.err.contains("--after "), "{part:?}");
    let letters = shell.json(&["dlq", "list", "--error", "NEWS"]).await;
    let number = letters["dead_letters"][0]["id"].to_string();
    let shown = shell.run(&["dlq", "show", &number]).await.well().out;
    assert!(shown.contains("error        bad \\u{1b}[31m\\nnews\n") && shown.ends_with("\n\"t2\"\n"), "{shown}");
    assert_eq!(shell.json(&["dlq", "show", &number]).await["payload"], "t2");
    shell.run(&["dlq", "show", "999"]).await.fails(3, "999");

    for command in ["replay", "purge"] {
        shell.run(&["dlq", command]).await.fails(2, "--all");
        let refused = shell.run(&["dlq", command, "--queue", "orders"]).await.fails(2, "2 dead letters will be ");
        assert!(refused.err.contains("of \"orders\": bad \\u{1b}[31m\\nnews"), "{refused:?}");
        let none = shell.run(&["dlq", command, "--queue", "other", "--yes"]).await.well();
        assert_eq!((none.out.as_str(), none.err.trim()), ("", "no dead letters match"));
        shell.run(&["dlq", command, &number, "--queue", "orders"]).await.fails(2, "--queue");
    }
    let replay = ["dlq", "replay", &number, "--payload", "{\"n\": 12345678901234567890.10}"];
    assert_eq!(shell.run(&replay).await.well().out, "replayed\n");
    assert!(shell.run(&["queue", "pop", "orders", "--ack"]).await.well().out.contains("12345678901234567890.10"));
    shell.run(&replay).await.fails(3, &number);
    let all = shell.run(&["dlq", "replay", "--all", "--yes"]).await.well().out;
    assert_eq!(all, "1 dead letter replayed\n");
    assert!(shell.run(&["queue", "pop", "orders", "--ack"]).await.well().out.contains("\"t1\""));
    assert_eq!(shell.run(&["dlq", "list"]).await.well().out, "");
}

/// Dead letters must be deleted one by one, or all of a filter, in steps.
/// More dead letters than a step handles.
#[tokio::test]
async fn dead_letters_are_purged_in_steps() {
    let server = Server::start().await;
    let shell = Shell { address: server.address };
    let ids: Vec<String> = (0..250).map(|number| format!("t{number}")).collect();
    server.push("orders", "p", &ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let popped = server.pop("queue/orders?batch=250").await;
    server.ack(&popped, "dlq").await;
    let newest = shell.json(&["dlq", "list", "--limit", "1"]).await["dead_letters"][0]["id"].to_string();
    shell.run(&["dlq", "purge", &newest]).await.fails(2, "will be deleted");
    assert_eq!(shell.run(&["dlq", "purge", &newest, "--yes"]).await.well().out, "deleted\n");
    let steps = shell.run(&["dlq", "purge", "--queue", "orders", "--yes", "--json"]).await.well().out;
    assert!(steps.lines().count() >= 2, "{steps}");
    assert_eq!(shell.run(&["dlq", "list"]).await.well().out, "");
}
