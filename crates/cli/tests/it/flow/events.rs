//! `GET /v1/tasks/{task_uuid}/events`: the stream of the transitions of a task.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::fixture::{Client, Server};
use crate::http::{assert_refused, eventually, get};
use crate::process::PATIENCE;

/// An open stream of events.
struct Stream {
    lines: tokio::io::Lines<BufReader<TcpStream>>,
    head: String,
}

impl Stream {
    async fn open(client: &Client, task: &str, after: Option<&str>) -> Stream {
        let mut socket = TcpStream::connect(client.address).await.expect("it listens");
        let after = after.map(|id| format!("last-event-id: {id}\r\n")).unwrap_or_default();
        let request = format!(
            "GET /v1/tasks/{task}/events HTTP/1.1\r\nhost: localhost\r\naccept-encoding: gzip, zstd\r\nconnection: close\r\n{after}\r\n"
        );
        socket.write_all(request.as_bytes()).await.expect("sent");
        let mut stream = Stream { lines: BufReader::new(socket).lines(), head: String::new() };
        while let Some(line) = stream.line().await.filter(|line| !line.is_empty()) {
            stream.head += &line.to_lowercase();
            stream.head.push('\n');
        }
        stream
    }

    async fn line(&mut self) -> Option<String> {
        timeout(PATIENCE, self.lines.next_line()).await.expect("in time").expect("no reset")
    }

    /// The next event: its kind, its id and its data. `None`: the stream has ended.
    async fn next(&mut self) -> Option<(String, Option<String>, Value)> {
        let (mut kind, mut id, mut data) = (None, None, None);
        // Skips the lines of the chunked encoding.
        while let Some(line) = self.line().await {
            match line.split_once(": ") {
                Some(("event", value)) => kind = Some(value.to_owned()),
                Some(("id", value)) => id = Some(value.to_owned()),
                Some(("data", value)) => data = Some(serde_json::from_str(value).expect("JSON")),
                _ => {}
            }
            if line.is_empty()
                && let Some(kind) = kind.take()
            {
                return Some((kind, id, data.unwrap_or_default()));
            }
        }
        None
    }

    /// The remaining events, until the stream ends.
    async fn rest(&mut self) -> Vec<(String, Option<String>, Value)> {
        let mut all = Vec::new();
        while let Some(event) = self.next().await {
            all.push(event);
        }
        all
    }
}

/// Every transition is sent as it happens, in order and once, also to clients that connect later. The stream ends with
/// the task, and a client that reconnects after the end is answered with 204. One stream from the beginning, one that
/// resumes in the middle, and one at the end.
#[tokio::test]
async fn every_transition_is_sent_and_the_stream_ends_with_the_task() {
    let server = Server::of("[{name: a}, {name: b, dependencies: [a]}]").await;
    let task = server.task(json!({})).await;
    let mut stream = Stream::open(&server.client, &task, None).await;
    assert!(stream.head.starts_with("http/1.1 200"), "{}", stream.head);
    assert!(
        stream.head.contains("content-type: text/event-stream") && !stream.head.contains("content-encoding"),
        "{}",
        stream.head
    );
    let first = stream.next().await.expect("an event");
    assert_eq!(first.0, "transition");
    assert!(first.1.is_some() && first.2["to"].is_string(), "{first:?}");
    server.finish().await;
    let mut all = vec![first];
    all.extend(stream.rest().await);
    assert_eq!(all.pop().expect("an end").0, "end");
    let mut ids: Vec<String> = all.iter().map(|(_, id, _)| id.clone().expect("an id")).collect();
    let reply: Vec<&Value> = all.iter().map(|(_, _, data)| data).collect();
    let history = get(server.address, &format!("/v1/tasks/{task}/transitions")).await.json();
    let history = history["transitions"].as_array().expect("transitions");
    for known in history {
        assert!(
            reply.iter().any(|reply| reply["step"] == known["step"] && reply["to"] == known["to"]),
            "{known} is missing in the stream"
        );
    }
    assert_eq!(reply.last().map(|last| &last["to"]), Some(&json!("complete")));

    let later = Stream::open(&server.client, &task, None).await.rest().await;
    assert_eq!(later.len(), history.len() + 1);
    let middle = &ids[ids.len() / 2];
    let rest = Stream::open(&server.client, &task, Some(middle)).await.rest().await;
    assert!(rest.len() < history.len() && rest.iter().all(|(_, id, _)| id.as_ref() != Some(middle)), "{rest:?}");
    let last = ids.pop().expect("an id");
    let gone = Stream::open(&server.client, &task, Some(&last)).await;
    assert!(gone.head.starts_with("http/1.1 204"), "{}", gone.head);
}

/// A stream ends when the server stops or its client disconnects. Unknown tasks and invalid ids are rejected.
#[tokio::test]
async fn a_stream_ends_with_the_server_and_with_its_client() {
    let server = Server::of("[{name: a}]").await;
    let task = server.task(json!({})).await;
    let waiting = async |count: usize| {
        let line = format!("reveille_wake_waiters{{consumer=\"watch\"}} {count}\n");
        eventually(server.address, "/metrics", |answer| answer.body.contains(&line)).await;
    };
    let gone = Stream::open(&server.client, &task, None).await;
    waiting(1).await;
    drop(gone);
    waiting(0).await;
    assert_refused(&server.get("tasks/00000000-0000-0000-0000-000000000000/events").await, 404, "0000");
    assert_refused(
        &server.send("GET", &format!("tasks/{task}/events"), &["last-event-id: x"], b"").await,
        400,
        "Last-Event-ID",
    );
    let mut stream = Stream::open(&server.client, &task, None).await;
    waiting(1).await;
    let Server { reveille, db: _db, .. } = server;
    reveille.signal("TERM").await;
    let reply = stream.rest().await;
    assert!(reply.iter().all(|(kind, ..)| kind == "transition"), "{reply:?}");
    assert_eq!(reveille.ended().await.status.code(), Some(0));
}
