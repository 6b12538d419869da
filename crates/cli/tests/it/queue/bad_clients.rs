//! Slow clients, stalled clients and invalid requests: other clients are not affected, and no data changes.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::fixture::{BASE, Client, Server, data, messages};
use super::waits::until_waiting;
use crate::failover_client::FailoverClient;
use crate::http::{eventually, get, parse};
use crate::process::PATIENCE;

/// Clients of each kind.
const CLIENTS: usize = 20;
/// What well-behaved clients do meanwhile.
const ROUNDS: usize = 30;

/// A well-behaved client: all its requests succeed.
async fn round(client: Client, number: usize) {
    let name = number.to_string();
    client.push("polite", &name, &[&name]).await;
    let popped = client.pop(&format!("queue/polite/partition/{name}?wait=true")).await;
    assert_eq!(data(&popped), [name.as_str()]);
    assert_eq!(client.ack(&popped, "completed").await[0]["success"], true);
}

/// A client that sends this and nothing more.
async fn begun(client: Client, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(client.address).await.expect("it listens");
    stream.write_all(text.as_bytes()).await.expect("sent");
    stream
}

/// A client that pushes a message byte by byte.
async fn dribble(client: Client, number: usize) {
    let body = json!({"items": [{"queue": "slow", "partition": "p", "payload": number}]}).to_string();
    let head =
        "POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n";
    let mut stream = begun(client, &format!("{head}content-length: {}\r\n\r\n", body.len())).await;
    for byte in body.as_bytes() {
        stream.write_all(&[*byte]).await.expect("it reads on");
        sleep(Duration::from_millis(20)).await;
    }
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer)).await.expect("in time").expect("answered");
    assert_eq!(parse(&answer).status, 201, "{answer}");
}

/// Clients that send nothing, half a request, or one byte at a time, or that close one direction of their connection,
/// must not delay others or leave anything behind.
/// Twenty of each kind; a well-behaved client works all the time. The slow ones are served in the end.
#[tokio::test]
async fn slow_and_silent_clients_do_not_delay_others() {
    let server = Server::start().await;
    let client = server.client;
    let (mut stalled, mut slow) = (Vec::new(), JoinSet::new());
    for number in 0..CLIENTS {
        stalled.push(begun(client, "").await);
        stalled.push(begun(client, "POST /api/v1/push HTTP/1.1\r\nhost: te").await);
        stalled.push(begun(client, "POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n{\"ite").await);
        let pop = format!("GET /api/v1/pop/queue/half?wait=true&timeout=600000&consumerGroup=g{number} HTTP/1.1");
        let mut half = begun(client, &format!("{pop}\r\nhost: localhost\r\n\r\n")).await;
        half.shutdown().await.expect("closed in one direction");
        stalled.push(half);
        slow.spawn(dribble(client, number));
    }
    for number in 0..ROUNDS {
        round(client, number).await;
    }
    while let Some(done) = slow.join_next().await {
        done.expect("a slow client is served");
    }
    let popped = client.pop("queue/slow?batch=100").await;
    let mut pushed: Vec<u64> = messages(&popped).iter().filter_map(|message| message["data"].as_u64()).collect();
    pushed.sort_unstable();
    assert_eq!(pushed, (0..CLIENTS as u64).collect::<Vec<_>>());
    // A client that has closed one direction counts as disconnected.
    until_waiting(client, 0).await;
    drop(stalled);
    eventually(client.address, "/metrics", |answer| answer.body.contains("reveille_http_connections 1\n")).await;
}

/// Responses that are not read must not delay other clients, and their memory must be released.
/// Clients with small buffers pop eight megabytes each and read only the first line; then they disconnect, and others
/// do the same, round after round.
#[tokio::test]
async fn unread_responses_do_not_accumulate_memory() {
    const TOGETHER: usize = 5;
    let server = Server::start().await;
    let large = "x".repeat(1 << 20);
    let item = json!({"queue": "large", "partition": "p", "payload": large});
    for _ in 0..2 {
        let pushed = server.post("push", &json!({"items": vec![item.clone(); 4]})).await;
        assert_eq!(pushed.status, 201, "{}", pushed.status);
    }
    let mut resident = Vec::new();
    for number in 0..20 {
        let mut unread = Vec::new();
        for client in 0..TOGETHER {
            let socket = TcpSocket::new_v4().expect("a socket");
            socket.set_recv_buffer_size(4_096).expect("a small buffer");
            let mut stream = socket.connect(server.address).await.expect("it listens");
            let pop = format!("GET /api/v1/pop/queue/large?batch=8&consumerGroup=g{number}-{client} HTTP/1.1");
            stream.write_all(format!("{pop}\r\nhost: localhost\r\n\r\n").as_bytes()).await.expect("sent");
            unread.push(stream);
        }
        for stream in &mut unread {
            let mut line = [0; 15];
            timeout(PATIENCE, stream.read_exact(&mut line)).await.expect("in time").expect("an answer begins");
            assert_eq!(&line, b"HTTP/1.1 200 OK");
        }
        round(server.client, number).await;
        drop(unread);
        eventually(server.address, "/metrics", |answer| answer.body.contains("reveille_http_connections 1\n")).await;
        resident.push(server.reveille.resident().unwrap_or(0) >> 20);
    }
    println!("resident after each round, in MB: {resident:?}");
    // The pool's connections and the allocator keep some memory; a leak would grow with every round.
    let (early, late) = (resident[..10].iter().max(), resident[15..].iter().min());
    let (early, late) = (early.expect("ten"), late.expect("five"));
    assert!(*late <= early + 2 * 8 * TOGETHER as u64, "it grows with every round: {resident:?}");
}

/// Unusual names, as they are sent in a path or a query.
const NAMES: &[&str] = &[
    "%00",
    "a%00b",
    "%F0%9F%90%98",
    "a%2Fb",
    "a/b",
    "..%2F..",
    "%FF",
    "%25",
    "%",
    "%20",
    "%27%3B%20drop%20table%20queue%3B--",
    "%E2%80%AE%0A",
    "partition",
];

/// Invalid values of parameters.
const VALUES: &[&str] =
    &["0", "-1", "1e99", "-1e99", "1000000000000", "99999999999999999999999", "NaN", "inf", "", "soon", "%00", "%FF"];

/// Fields of unusual types. Without booleans, because some fields accept them.
fn fields() -> Vec<Value> {
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let kinds = [json!(null), json!(7), json!(-1), json!(1e99), json!(""), json!("a\0b"), json!("🐘".repeat(1_001))];
    kinds.into_iter().chain([json!([]), json!([7]), json!({}), json!({"a": {}}), deep]).collect()
}

/// The whole state that must not change.
async fn state(client: Client) -> Vec<Value> {
    let mut state = Vec::new();
    for path in [
        "resources/queues/kept",
        "messages?queue=kept",
        "dlq?queue=kept",
        "consumer-groups/kept",
        "system/maintenance",
        "system/maintenance/pop",
        "resources/queues/kept/depth",
    ] {
        let answer = get(client.address, &format!("/api/v1/{path}")).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        let mut reply = answer.json();
        forget_ages(&mut reply);
        state.push(reply);
    }
    state
}

/// Numbers that change by themselves.
fn forget_ages(reply: &mut Value) {
    match reply {
        Value::Object(fields) => {
            let ages = ["seconds", "age", "timelag"];
            fields.retain(|name, _| !ages.iter().any(|age| name.to_lowercase().contains(age)));
            fields.values_mut().for_each(forget_ages);
        }
        Value::Array(elements) => elements.iter_mut().for_each(forget_ages),
        _ => {}
    }
}

/// Sends a request that may be invalid: it succeeds or is rejected with a client error in the usual form.
async fn nonsense(client: &mut FailoverClient, method: &str, path: &str, body: Option<&Value>) {
    let answer = client.ask(&method.to_uppercase(), path, body).await;
    let answer =
        answer.unwrap_or_else(|| panic!("{method} {path} {body:?} is the server's fault: {:?}", client.last_failure()));
    if answer.status >= 400 {
        assert!(answer.json()["error"].is_string(), "{method} {path} {body:?}: {answer:?}");
    }
}

/// The keys of a request's body that the document describes.
fn keys(document: &Value, schema: &Value) -> Vec<String> {
    let schema = match schema["$ref"].as_str() {
        Some(name) => document.pointer(name.trim_start_matches('#')).expect("described"),
        None => schema,
    };
    let parts = ["oneOf", "allOf", "anyOf"].iter().flat_map(|kind| schema[kind].as_array()).flatten();
    let inner = parts.flat_map(|part| keys(document, part));
    schema["properties"].as_object().into_iter().flatten().map(|(key, _)| key.clone()).chain(inner).collect()
}

/// No name, parameter or body may cause a server error, and a rejected request must change nothing.
/// Every route of the document with unusual names, every parameter with every value, and bodies that are not JSON or
/// have fields of other types. Before and after, the state of a queue that no request names is read.
#[tokio::test]
async fn invalid_requests_are_rejected_everywhere_and_change_nothing() {
    let server = Server::start().await;
    server.push("kept", "p", &["1", "2", "3"]).await;
    server.ack(&server.pop("queue/kept?consumerGroup=kept").await, "dlq").await;
    let before = state(server.client).await;
    let document = get(server.address, "/openapi.json").await.json();
    let mut client = FailoverClient::new(BASE, &[server.address], 0);
    let long = "x".repeat(1_001);
    let mut asked = 0;
    for (path, methods) in document["paths"].as_object().expect("paths") {
        let path = path.trim_start_matches("/api/v1/");
        // Every second piece is the name of a parameter.
        let pieces = || path.split(['{', '}']).enumerate();
        let named = |name: &str| pieces().map(|(at, piece)| if at % 2 == 1 { name } else { piece }).collect::<String>();
        for (method, described) in methods.as_object().expect("methods") {
            if path.contains('{') {
                for name in NAMES.iter().copied().chain([long.as_str()]) {
                    nonsense(&mut client, method, &named(name), None).await;
                    asked += 1;
                }
            }
            let plain = named("nothing");
            for parameter in described["parameters"].as_array().into_iter().flatten() {
                let name = parameter["name"].as_str().expect("a name");
                for value in VALUES.iter().chain(NAMES).copied().chain([long.as_str()]) {
                    if parameter["in"] == "query" {
                        nonsense(&mut client, method, &format!("{plain}?{name}={value}"), None).await;
                        asked += 1;
                    }
                }
            }
            let schema = &described["requestBody"]["content"]["application/json"]["schema"];
            if !schema.is_object() {
                continue;
            }
            for body in fields() {
                nonsense(&mut client, method, &plain, Some(&body)).await;
                for key in keys(&document, schema) {
                    nonsense(&mut client, method, &plain, Some(&json!({key: body}))).await;
                    asked += 1;
                }
            }
            for text in ["{", "[", "\"", "{\"items\":[", "\u{feff}{}", "nul", "{}{}"] {
                let answer = server.post_text(&plain, text).await;
                assert!((400..500).contains(&answer.status), "{plain} {text:?}: {answer:?}");
            }
        }
    }
    println!("{asked} requests");
    assert!(asked > 500, "the document describes too little: {asked}");
    assert_eq!(state(server.client).await, before);
}
