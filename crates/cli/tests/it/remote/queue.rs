//! `reveille queue`, against a running server.

use serde_json::{Value, json};

use super::fixture::{Shell, lines};
use crate::process::{Reveille, command};
use crate::queue::fixture::{Server, data};

/// A name with every kind of special character, and as it is shown.
const ODD: &str = "a/b?c#d%e \"q\" 🎉\u{1b}[31m";
const ODD_SHOWN: &str = "a/b?c#d%e \"q\" 🎉\\u{1b}[31m";

/// What is pushed must be popped with all digits of its numbers, whatever the names of the queue and the partition.
/// A push of an argument, of a file, of text and of standard input; the answer of a pop is compared as text.
#[tokio::test]
async fn a_pushed_message_is_popped_exactly() {
    let server = Server::start().await;
    let shell = Shell { address: server.address };
    let file = std::env::temp_dir().join(format!("reveille-message-{}", std::process::id()));
    std::fs::write(&file, "{\"file\": 1}\n").expect("written");
    let at = format!("@{}", file.display());

    let exact = "{\"n\": 12345678901234567890.10, \"s\": \"\\u001b[31m\"}";
    let push = ["queue", "push", ODD, exact, "--partition", ODD, "--id", "t1"];
    assert_eq!(shell.run(&push).await.well().out, "queued  t1\n");
    assert_eq!(shell.run(&push).await.well().out, "duplicate  t1\n");
    shell.run(&["queue", "push", ODD, "--partition", ODD, "--id", "t2", &at]).await.well();
    shell.run(&["queue", "push", ODD, "--partition", ODD, "--id", "t3", "--text", "no JSON"]).await.well();
    let pushed = shell.run_with(&["queue", "push", ODD, "--partition", ODD, "--json", "-"], "[4]").await.well().json();
    assert_eq!(pushed[0]["status"], "queued");
    std::fs::remove_file(&file).expect("removed");

    let popped = shell.run(&["queue", "pop", ODD, "--partition", ODD, "--batch", "9", "--json"]).await.well();
    assert!(popped.out.contains(exact), "{}", popped.out);
    let popped = popped.json();
    let payloads: Vec<&Value> = popped["messages"].as_array().expect("messages").iter().map(|it| &it["data"]).collect();
    assert_eq!(payloads[1..], [&json!({"file": 1}), &json!("no JSON"), &json!([4])]);
    // They are leased now, and there are no others.
    shell.run(&["queue", "pop", ODD]).await.fails(1, "no messages");
}

/// A message must be acknowledged only if that was asked for, and after it was printed.
/// Pops as two consumer groups, one with `--ack`; what is left for each is popped again.
#[tokio::test]
async fn messages_are_acknowledged_on_request() {
    let server = Server::start().await;
    let shell = Shell { address: server.address };
    server.push("orders", "p", &["one", "two"]).await;
    for (group, acks, left) in [("reads", false, None), ("acks", true, Some("two"))] {
        let pop = ["queue", "pop", "orders", "--group", group];
        let table = shell.run(&if acks { [&pop[..], &["--ack"]].concat() } else { pop.to_vec() }).await.well().out;
        let rows = lines(&table);
        assert!(rows[0].starts_with("PARTITION  TRANSACTION  PUSHED") && rows.len() == 2, "{table}");
        assert!(rows[1].starts_with("p          one ") && rows[1].ends_with("\"one\""), "{table}");
        match left {
            Some(left) => assert_eq!(data(&server.pop(&format!("queue/orders?consumerGroup={group}")).await), [left]),
            None => server.pop_nothing(&format!("queue/orders?consumerGroup={group}")).await,
        }
    }
}

/// A pop that waits must end with the message that is pushed meanwhile, or with 1 after its time.
/// The push comes when the server reports the waiting pop.
#[tokio::test]
async fn a_pop_waits_for_a_message() {
    let server = Server::start().await;
    let shell = Shell { address: server.address };
    shell.run(&["queue", "pop", "orders", "--wait=100ms"]).await.fails(1, "no messages");
    let pop = ["queue", "pop", "orders", "--wait", "--ack"];
    let (popped, ()) = tokio::join!(shell.run(&pop), async {
        let waits = |answer: &crate::http::Answer| answer.json()["server"]["waitingPops"] == 1;
        crate::http::eventually(server.address, "/api/v1/status", waits).await;
        server.push("orders", "p", &["late"]).await;
    });
    assert!(popped.well().out.contains("\"late\""));
}

/// A push of lines must be able to continue where it ended, and must not push twice what has an id.
/// Lines with a mistake in the middle, then the rest; then everything again.
#[tokio::test]
async fn a_push_of_lines_continues_where_it_ended() {
    let server = Server::start().await;
    let shell = Shell { address: server.address };
    let push = ["queue", "push", "log", "--lines", "-", "--ids", "l-", "--batch", "2"];
    let broken = "1\n\n3\n4\n5\nsix\n7\n";
    let done = shell.run_with(&push, broken).await;
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains("line 6 is not JSON"), "{done:?}");
    assert!(done.err.contains("the first 5 lines are pushed: continue with --skip 5"), "{done:?}");

    let right = broken.replace("six", "6");
    let rest = shell.run_with(&[&push[..], &["--skip", "5"]].concat(), &right).await.well();
    assert_eq!(rest.out, "2 messages pushed\n");
    let again = shell.run_with(&push, &right).await.well();
    assert_eq!(again.out, "0 messages pushed, 6 duplicates\n");
    let popped = server.pop("queue/log?batch=10").await;
    let ids: Vec<_> = popped["messages"].as_array().expect("messages").iter().map(|it| &it["transactionId"]).collect();
    assert_eq!(ids, ["l-1", "l-3", "l-4", "l-5", "l-6", "l-7"]);

    let items = "{\"partition\": \"x\", \"transactionId\": \"own\", \"payload\": {\"a\": 1}}";
    let each = shell.run_with(&["queue", "push", "log", "--lines", "-", "--items", "--json"], items).await.well();
    assert_eq!((&each.json()["status"], &each.json()["transaction_id"]), (&json!("queued"), &json!("own")));
    let unknown = shell.run_with(&["queue", "push", "log", "--lines", "-", "--items"], "{\"data\": 1}").await;
    unknown.fails(2, "line 1 is not an item: unknown field `data`");
}

/// A message that the server rejects must make the push fail.
/// A queue that is full.
#[tokio::test]
async fn a_rejected_message_is_a_failure() {
    let server = Server::start().await;
    let shell = Shell { address: server.address };
    shell.run(&["queue", "configure", "small", "maxSize=1"]).await.well();
    shell.run(&["queue", "push", "small", "1"]).await.well();
    shell.run(&["queue", "push", "small", "2"]).await.fails(1, "not pushed: ");
    shell
        .run_with(&["queue", "push", "small", "--lines", "-"], "2\n3\n")
        .await
        .fails(1, "0 pushed, 2 messages not pushed");
    shell.run(&["queue", "push", "small", "{"]).await.fails(2, "the payload is not JSON");
    shell.run(&["queue", "push", "small", "@/no/such/file"]).await.fails(2, "cannot read /no/such/file");
    shell.run(&["queue", "push", "small"]).await.fails(2, "<PAYLOAD>");
}

/// Peeking must lease nothing, and show payloads without their control characters.
/// Two messages; what a pop gets afterwards.
#[tokio::test]
async fn peeking_leases_nothing() {
    let server = Server::start().await;
    let shell = Shell { address: server.address };
    shell.run(&["queue", "peek", ODD]).await.fails(3, "no queue");
    for (id, payload) in [("t1", "1"), ("t2", "{\"a\" : \"x\u{9b}31m\"}")] {
        shell.run(&["queue", "push", ODD, payload, "--id", id, "--partition", ODD]).await.well();
    }
    let table = shell.run(&["queue", "peek", ODD]).await.well().out;
    assert!(table.contains(ODD_SHOWN) && table.contains("{\"a\":\"x\\u{9b}31m\"}"), "{table}");
    assert!(lines(&table)[1].contains("t2 ") && table.contains("pending"), "{table}");
    let page = shell.json(&["queue", "peek", ODD, "--limit", "1"]).await;
    let first = &page["messages"][0];
    assert_eq!((&first["transaction_id"], &first["payload"]["a"]), (&json!("t2"), &json!("x\u{9b}31m")));
    let next = page["next"].as_str().expect("there is more");
    assert_eq!(shell.json(&["queue", "peek", ODD, "--after", next]).await["messages"][0]["transaction_id"], "t1");
    let group = shell.json(&["queue", "peek", ODD, "--group", "g"]).await;
    assert_eq!(group["messages"][0]["transaction_id"], "t1", "oldest first");
    let bare = shell.json(&["queue", "peek", ODD, "--no-payload"]).await;
    assert_eq!(bare["messages"][0].get("payload"), None);
    assert_eq!(shell.run(&["queue", "pop", ODD, "--batch", "9"]).await.well().out.lines().count(), 3);
    assert_eq!(shell.run(&["queue", "peek", ODD, "--status", "pending"]).await.well().out, "");
}

/// A queue must be shown with its options, groups and partitions.
/// A queue that a group has read in part; one that does not exist.
#[tokio::test]
async fn a_queue_is_shown() {
    let server = Server::start().await;
    let shell = Shell { address: server.address };
    server.push(ODD, ODD, &["t1", "t2"]).await;
    server.push(ODD, "other", &["t3"]).await;
    let pop = ["queue", "pop", ODD, "--partition", ODD, "--group", "billing", "--ack"];
    shell.run(&pop).await.well();
    let shown = shell.run(&["queue", "show", ODD]).await.well().out;
    for part in [&format!("queue         {ODD_SHOWN}\n"), "messages      3, ", "leaseTime=300", "billing", "other"] {
        assert!(shown.contains(part), "{part:?} is not in {shown}");
    }
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    let one = shell.run(&["queue", "show", ODD, "--partition", "other"]).await.well();
    assert!(one.out.contains("other") && one.err.is_empty(), "{one:?}");
    let part = shell.run(&["queue", "show", ODD, "--limit", "1"]).await.well();
    assert!(part.err.contains("1 of 2; --offset 1 shows the next"), "{part:?}");
    assert_eq!(shell.json(&["queue", "show", ODD]).await["partitionCount"], 2);
    shell.run(&["queue", "show", "none"]).await.fails(3, "none");
}

/// Options must be changed by their names, and every option of the server must be known.
/// Changes some; compares the names in an error with those of the OpenAPI document.
#[tokio::test]
async fn a_queue_is_configured() {
    let server = Server::start().await;
    let shell = Shell { address: server.address };
    let set = ["queue", "configure", ODD, "leaseTime=60", "deadLetterQueue=true", "--namespace", "shop"];
    let shown = shell.run(&set).await.well().out;
    assert!(shown.lines().any(|line| line.starts_with("leaseTime  ") && line.ends_with("  60")), "{shown}");
    let now = shell.json(&["queue", "configure", ODD]).await;
    assert_eq!((&now["options"]["leaseTime"], &now["namespace"]), (&json!(60), &json!("shop")));
    shell.run(&["queue", "configure", ODD, "leaseTime=0"]).await.fails(1, "leaseTime");

    let unknown = shell.run(&["queue", "configure", ODD, "lease=1"]).await.fails(2, "no option \"lease\"");
    let document = crate::http::get(server.address, "/openapi.json").await.json();
    let options = document["components"]["schemas"]["QueueOptionsGiven"]["properties"].as_object().expect("options");
    let mut names: Vec<_> = options.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert!(unknown.err.contains(&format!("it has {}\n", names.join(", "))), "{unknown:?}");
}

/// What removes messages must say how many, and do nothing without a confirmation.
/// Clearing and deleting, without and with `--yes`.
#[tokio::test]
async fn removing_needs_a_confirmation() {
    let server = Server::start().await;
    let shell = Shell { address: server.address };
    server.push(ODD, "p", &["t1", "t2"]).await;
    server.push(ODD, "q", &["t3"]).await;
    let clear = ["queue", "clear", ODD];
    let refused = shell.run(&clear).await.fails(2, "3 messages of the queue");
    assert!(refused.err.contains("--yes") && refused.err.contains("nothing was changed"), "{refused:?}");
    let part = [&clear[..], &["--partition", "q", "--yes"]].concat();
    assert_eq!(shell.run(&part).await.well().out, "1 message deleted\n");
    shell.run(&["queue", "delete", ODD]).await.fails(2, "with 2 messages in 2 partitions");
    assert_eq!(shell.json(&["queue", "delete", ODD, "-y"]).await["existed"], true);
    shell.run(&["queue", "delete", ODD, "--yes"]).await.fails(3, "no queue");
    shell.run(&clear).await.fails(3, "no queue");
}

/// A paused queue must deliver nothing until it is resumed; the same for one consumer group.
/// Pops while the queue and a group of it are paused.
#[tokio::test]
async fn queues_and_groups_are_paused() {
    let server = Server::start().await;
    let shell = Shell { address: server.address };
    server.push(ODD, "p", &["t1", "t2", "t3", "t4"]).await;
    assert_eq!(shell.run(&["queue", "pause", ODD]).await.well().out, "paused\n");
    assert!(shell.run(&["queue", "list"]).await.well().out.contains("paused "));
    shell.run(&["queue", "pop", ODD]).await.fails(1, "no messages");
    assert_eq!(shell.json(&["queue", "resume", ODD]).await["paused"], false);
    shell.run(&["queue", "pop", ODD, "--group", "g", "--ack"]).await.well();
    assert_eq!(shell.run(&["group", "pause", "g", ODD]).await.well().out, "paused\n");
    shell.run(&["queue", "pop", ODD, "--group", "g"]).await.fails(1, "no messages");
    assert_eq!(shell.run(&["group", "resume", "g", ODD]).await.well().out, "resumed\n");
    shell.run(&["queue", "pop", ODD, "--group", "g"]).await.well();
    for command in ["pause", "resume"] {
        shell.run(&["queue", command, "none"]).await.fails(3, "none");
        shell.run(&["group", command, "none", ODD]).await.fails(3, "none");
    }
}

/// A tail must print every message once, in order, as it is pushed, and lease nothing.
/// Pushes while it runs; a consumer gets all messages afterwards.
#[tokio::test]
async fn a_tail_prints_what_is_pushed() {
    let server = Server::start().await;
    let shell = Shell { address: server.address };
    shell.run(&["queue", "tail", "orders"]).await.fails(3, "no queue");
    server.push("orders", "p\u{1b}", &["old-1", "old-2"]).await;
    let mut tail = command(&["queue", "tail", "orders", "-n", "1"]);
    tail.env("REVEILLE_URL", format!("http://{}", server.address));
    let tail = Reveille::start(tail);
    tail.line("old-2").await;
    server.push("orders", "p\u{1b}", &["new-1", "new-2"]).await;
    tail.line("new-2").await;
    server.push("orders", "q", &["other"]).await;
    let line = tail.line("other").await;
    assert!(line.ends_with("  q  other  \"other\""), "{line}");
    tail.signal("INT").await;
    let ended = tail.ended().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.output);
    let printed: Vec<&str> = ended.output.lines().map(|line| line.rsplit('"').nth(1).unwrap_or_default()).collect();
    assert_eq!(printed, ["old-2", "new-1", "new-2", "other"], "{}", ended.output);
    assert!(ended.output.contains("  p\\u{1b}  new-1  "), "{}", ended.output);
    assert_eq!(data(&server.pop("queue/orders/partition/q").await), ["other"]);
}
