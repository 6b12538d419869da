//! Reaching a server: addresses, tokens, other programs, exit codes.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};

use super::fixture::{Shell, run};
use crate::process::{command, run as run_plain};
use crate::queue::fixture::Server;

/// A program that gives every request the same answer, and returns the first request when it is dropped.
struct Other {
    address: SocketAddr,
    requests: JoinHandle<String>,
}

impl Other {
    async fn answering(answer: &str) -> Other {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let answer = answer.replace('\n', "\r\n");
        let requests = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if stream.read(&mut byte).await.expect("readable") == 0 {
                    break;
                }
                request.push(byte[0]);
            }
            stream.write_all(answer.as_bytes()).await.expect("written");
            String::from_utf8(request).expect("text")
        });
        Other { address, requests }
    }
}

/// Without a server the message must say how to get one, and the exit code must tell it from other failures.
/// A port that was just free, and a host name that does not exist.
#[tokio::test]
async fn an_unreachable_server_is_named_with_a_way_out() {
    let free = TcpListener::bind("127.0.0.1:0").await.expect("a free port").local_addr().expect("bound");
    for server in [format!("http://{free}"), "http://no-such-host.invalid".to_owned()] {
        let done = run(&server, &["queue", "list"], &[], "").await;
        let done = done.fails(4, &format!("no server at {server}: start one with `reveille up`"));
        assert!(done.err.contains("--server (REVEILLE_URL)"), "{done:?}");
    }
}

/// Answers that are not those of a reveille server must be explained, each with its exit code.
/// One program per answer, as a proxy or another server would give it.
#[tokio::test]
async fn other_answers_are_explained() {
    let html = "content-type: text/html\ncontent-length: 22\n\n<h1>Bad gateway</h1>\r\n";
    let json = |status: &str, error: &str| {
        let body = format!("{{\"error\":\"{error}\"}}");
        format!("HTTP/1.1 {status}\ncontent-type: application/json\ncontent-length: {}\n\n{body}", body.len())
    };
    let table = [
        (format!("HTTP/1.1 502 Bad Gateway\n{html}"), 4, "a proxy in front of it answered: status 502"),
        (format!("HTTP/1.1 200 OK\n{html}"), 4, "is not a reveille server"),
        (format!("HTTP/1.1 404 Not Found\n{html}"), 4, "is not a reveille server"),
        (format!("HTTP/1.1 403 Forbidden\n{html}"), 5, "no token was sent: set REVEILLE_TOKEN"),
        (
            "HTTP/1.1 302 Found\nlocation: https://login.example/\n\n".to_owned(),
            4,
            "redirects to https://login.example/",
        ),
        (json("401 Unauthorized", "a token is required"), 5, "a token is required; no token was sent"),
        (json("404 Not Found", "there is no queue"), 3, "there is no queue"),
        (json("503 Service Unavailable", "stopping"), 4, "temporarily unavailable: stopping"),
        (json("400 Bad Request", "invalid parameter"), 1, "invalid parameter"),
        (json("200 OK", "x"), 1, "cannot be read"),
        ("SSH-2.0-OpenSSH_9.2\n\n".to_owned(), 4, "check that a reveille server listens there"),
        (String::new(), 4, "gave no answer"),
        (
            "HTTP/1.1 200 OK\ncontent-type: application/json\ncontent-length: 99\n\n{".to_owned(),
            4,
            "ended within its answer",
        ),
    ];
    for (answer, code, part) in table {
        let other = Other::answering(&answer).await;
        run(&format!("http://{}", other.address), &["queue", "list"], &[], "").await.fails(code, part);
    }
}

/// The token must come from the variable or from a file, and be sent as a bearer token below the path of a proxy. It must
/// never be printed.
/// Reads the request; then sends an invalid token and one that is rejected.
#[tokio::test]
async fn a_token_is_sent_and_never_printed() {
    let file = std::env::temp_dir().join(format!("reveille-token-{}", std::process::id()));
    std::fs::write(&file, "rvl_file\n").expect("written");
    let path = file.to_str().expect("UTF-8");
    let answer =
        "HTTP/1.1 401 Unauthorized\ncontent-type: application/json\ncontent-length: 18\n\n{\"error\":\"unknown\"}";
    for (args, sent) in
        [(&["queue", "list"][..], "rvl_hunter2"), (&["queue", "list", "--token-file", path], "rvl_file")]
    {
        let other = Other::answering(answer).await;
        let server = format!("http://{}/team/a/", other.address);
        let done = run(&server, args, &[("REVEILLE_TOKEN", " rvl_hunter2\n")], "").await;
        let request = other.requests.await.expect("a request");
        assert!(request.starts_with("GET /team/a/v1/queues?"), "{request}");
        assert!(request.contains(&format!("authorization: Bearer {sent}\r\n")), "{request}");
        assert!(request.contains(&format!("host: {}\r\n", other.address)), "{request}");
        assert!(!done.err.contains("rvl_") && !done.err.contains("no token was sent"), "{done:?}");
    }
    std::fs::remove_file(&file).expect("removed");
    let wrong = run("http://127.0.0.1:1", &["queue", "list"], &[("REVEILLE_TOKEN", "hunter2\n2")], "").await;
    assert!(!wrong.fails(2, "REVEILLE_TOKEN").err.contains("hunter2"));
    let missing = run("http://127.0.0.1:1", &["queue", "list", "--token-file", path], &[], "").await;
    missing.fails(2, "--token-file");
}

/// An address that is none must be rejected before anything is sent, without quoting a password.
/// Addresses in the variable and in the flag.
#[tokio::test]
async fn an_invalid_address_is_a_wrong_setting() {
    for server in ["", "ftp://127.0.0.1", "http://ann:hunter2@127.0.0.1:1", "http://127.0.0.1:1/?x=1"] {
        let ended = run_plain(command(&["queue", "list", "--server", server])).await;
        assert_eq!(ended.status.code(), Some(2), "{server}: {}", ended.output);
        assert!(ended.output.contains("--server (REVEILLE_URL)"), "{server}: {}", ended.output);
        assert!(!ended.output.contains("hunter2"), "{}", ended.output);
    }
}

/// The same command must print a table for people and the exact answer for programs, and a list that is shown in part
/// must say so.
/// Two queues with odd names on a real server.
#[tokio::test]
async fn a_list_is_a_table_or_the_exact_answer() {
    let server = Server::start().await;
    let shell = Shell { address: server.address };
    let none = shell.run(&["queue", "list"]).await.well();
    assert_eq!((none.out.as_str(), none.err.trim()), ("", "no queues"));

    server.push("a/b \"q\" 🎉\u{1b}[31m", "p", &["t1", "t2"]).await;
    server.push("plain", "p", &["t1"]).await;
    let table = shell.run(&["queue", "list"]).await.well().out;
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("QUEUE") && lines[0].contains("DEPTH  LEASED  OLDEST"), "{table}");
    assert!(lines[1].starts_with("a/b \"q\" 🎉\\u{1b}[31m ") && lines.len() == 3, "{table}");

    let without_rates = |text: &str| text.split("per_second").next().unwrap_or_default().to_owned();
    let exact = crate::http::get(server.address, "/v1/queues?limit=100").await.body;
    let printed = shell.run(&["queue", "list", "--json"]).await.well().out;
    assert_eq!(without_rates(&printed), without_rates(&exact));
    let part = shell.run(&["queue", "list", "--limit", "1"]).await.well();
    assert!(part.err.contains("--after "), "{part:?}");
    assert_eq!(shell.json(&["queue", "list", "--search", "PLAIN"]).await["queues"][0]["name"], "plain");
}
