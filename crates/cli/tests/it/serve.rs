//! `reveille serve` on a database that is available, and on one that is not always.

use std::{net::SocketAddr, process::Stdio};

use reveille_pg::testing::{PrivateCluster, TestDb};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    process::Command,
    time::timeout,
};

use crate::{
    http::{eventually, exchange, get, parse, request},
    process::{PATIENCE, Reveille, command, run},
};

/// A server on a free port and the schema of a test.
pub(crate) fn serve(db: &TestDb, more: &[&str]) -> Command {
    let mut serve = command(&["serve"]);
    serve
        .args(more)
        .env("REVEILLE_LISTEN", "127.0.0.1:0")
        .env("DATABASE_URL", db.url())
        .env("REVEILLE_SCHEMA", db.schema().name());
    serve
}

/// Starts it and waits until it is ready.
pub(crate) async fn ready(command: Command) -> (Reveille, SocketAddr) {
    let reveille = Reveille::start(command);
    let address = reveille.address().await;
    eventually(address, "/health", |answer| answer.status == 200).await;
    (reveille, address)
}

/// Stops it as a supervisor would, and checks that it exits with code 0.
pub(crate) async fn stop(reveille: Reveille) -> String {
    reveille.signal("TERM").await;
    let ended = reveille.ended().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.output);
    ended.output
}

/// Stops it, and checks that it has logged no error. Warnings are allowed: a slow machine causes some.
pub(crate) async fn quiet(reveille: Reveille) {
    let output = stop(reveille).await;
    let bad = |line: &&str| ["ERROR", "panicked"].iter().any(|word| line.contains(word));
    let complaints: Vec<&str> = output.lines().filter(bad).collect();
    assert!(complaints.is_empty(), "the server complained:\n{}", complaints.join("\n"));
}

/// Every endpoint of the server must answer in its documented form, and every error must be JSON.
/// Sends a request to each of a real process.
#[tokio::test]
async fn the_endpoints_answer_as_documented() {
    let db = TestDb::new().await;
    let (reveille, address) = ready(serve(&db, &[])).await;
    for path in ["/health", "/health/ready"] {
        let answer = get(address, path).await;
        assert_eq!((answer.status, &answer.json()["status"]), (200, &"ready".into()), "{path}: {answer:?}");
    }
    assert_eq!(get(address, "/health/live").await.json()["status"], "live");

    let answer = get(address, "/no/such/path?secret=1").await;
    assert_eq!((answer.status, &answer.json()["error"]), (404, &"no route for GET /no/such/path".into()));
    let answer = request(address, "DELETE", "/health").await;
    assert_eq!((answer.status, &answer.json()["error"]), (405, &"DELETE is not allowed on /health".into()));
    assert!(answer.headers.contains("allow: get,head"), "{}", answer.headers);
    stop(reveille).await;
}

/// Metrics must be in Prometheus' text format under both paths, and count requests by route, not by path.
/// Sends requests, then parses every line of the response as Prometheus does.
#[tokio::test]
async fn metrics_are_prometheus_text() {
    let db = TestDb::new().await;
    let (reveille, address) = ready(serve(&db, &[])).await;
    get(address, "/made/up/1").await;
    get(address, "/made/up/2").await;
    get(address, "/metrics").await;
    let answer = get(address, "/metrics/prometheus").await;
    assert_eq!(answer.status, 200);
    assert!(answer.headers.contains("content-type: text/plain; version=0.0.4"), "{}", answer.headers);
    for line in answer.body.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line:?}"));
        let name = series.split('{').next().unwrap_or_default();
        assert!(!name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{line:?}");
        assert!(value.parse::<f64>().is_ok(), "{line:?}");
    }
    for expected in [
        "reveille_ready 1",
        "reveille_build_info{version=",
        "# TYPE reveille_http_request_seconds histogram",
        r#"reveille_http_requests_total{method="GET",route="unmatched",status="404"} 2"#,
        r#"reveille_http_requests_total{method="GET",route="/metrics",status="200"} 1"#,
    ] {
        assert!(answer.body.contains(expected), "{expected} is not in\n{}", answer.body);
    }
    stop(reveille).await;
}

/// A client must not be able to hold unbounded memory: too many or too large headers are rejected, and the next client
/// is served.
/// Sends both over a raw socket.
#[tokio::test]
async fn oversized_headers_are_refused() {
    let db = TestDb::new().await;
    let (reveille, address) = ready(serve(&db, &[])).await;
    let large = format!("GET /health HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "y".repeat(64 * 1024));
    let many = format!("GET /health HTTP/1.1\r\nhost: localhost\r\n{}\r\n", "x: y\r\n".repeat(500));
    for text in [large, many] {
        // A server that closes with bytes unread may reset the connection before the answer is read.
        if let Ok(answer) = exchange(address, &text).await {
            assert_eq!(parse(&answer).status, 431);
        }
    }
    assert_eq!(get(address, "/health/live").await.status, 200);
    stop(reveille).await;
}

/// A port in use must be named, with a port to use instead.
/// Occupies a port, then starts the server on it.
#[tokio::test]
async fn a_port_in_use_is_named_with_a_way_out() {
    let db = TestDb::new().await;
    let taken = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = taken.local_addr().expect("bound");
    let ended = run(serve(&db, &["--listen", &address.to_string()])).await;
    assert_eq!(ended.status.code(), Some(1));
    assert!(
        ended.output.contains(&format!("port {} on 127.0.0.1 is already in use", address.port())),
        "{}",
        ended.output
    );
    assert!(ended.output.contains("--listen"), "{}", ended.output);
}

/// Any number of processes may start on one new schema at once, and all must become ready.
/// Starts three together.
#[tokio::test]
async fn processes_that_start_together_migrate_together() {
    let db = TestDb::new().await;
    let all: Vec<Reveille> = (0..3).map(|_| Reveille::start(serve(&db, &[]))).collect();
    for reveille in &all {
        let address = reveille.address().await;
        eventually(address, "/health", |answer| answer.status == 200).await;
    }
    for reveille in all {
        stop(reveille).await;
    }
}

/// A stopping process must report that it is not ready before it refuses connections, and a second signal must end it
/// at once with the signal's exit code.
/// The shutdown delay is an hour: only the second signal can end the process within the test. It is repeated, because
/// copies right after the first one do not count.
#[tokio::test]
async fn a_stopping_server_is_not_ready_and_a_second_signal_ends_it() {
    let db = TestDb::new().await;
    for (name, code) in [("INT", 130), ("TERM", 143)] {
        let (reveille, address) = ready(serve(&db, &["--shutdown-delay=1h"])).await;
        reveille.signal(name).await;
        let answer = eventually(address, "/health/ready", |answer| answer.status == 503).await;
        assert_eq!(answer.json()["status"], "stopping");
        assert_eq!(get(address, "/health/live").await.status, 200);
        let ended = reveille.ended_by_repeating(name).await;
        assert_eq!(ended.status.code(), Some(code), "{}", ended.output);
    }
}

/// One Ctrl-C that arrives twice, as it does below some programs, must still end the process in order.
/// Sends two signals right after each other.
#[tokio::test]
async fn a_signal_that_arrives_twice_counts_once() {
    let db = TestDb::new().await;
    let (reveille, _) = ready(serve(&db, &[])).await;
    tokio::join!(reveille.signal("INT"), reveille.signal("INT"));
    let ended = reveille.ended().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.output);
}

/// A server that was started with `nohup` must survive the end of its terminal.
/// A shell ignores SIGHUP, as `nohup` does, and becomes the server; SIGHUP is sent, then the usual signal.
#[tokio::test]
async fn an_ignored_hangup_stays_ignored() {
    let db = TestDb::new().await;
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$0\" serve --listen 127.0.0.1:0", env!("CARGO_BIN_EXE_reveille")]);
    shell.env("DATABASE_URL", db.url()).env("REVEILLE_SCHEMA", db.schema().name());
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let (reveille, address) = ready(shell).await;
    reveille.signal("HUP").await;
    assert_eq!(get(address, "/health").await.status, 200);
    let output = stop(reveille).await;
    assert_eq!(output.matches("stopping").count(), 1, "{output}");
}

/// A connection that is kept open must not delay the end of the process.
/// Leaves one open after a response, then stops the server: the connection is closed, the process exits with code 0.
#[tokio::test]
async fn an_idle_connection_does_not_delay_the_end() {
    let db = TestDb::new().await;
    let (reveille, address) = ready(serve(&db, &[])).await;
    let mut idle = TcpStream::connect(address).await.expect("it listens");
    idle.write_all(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("sent");
    let mut buffer = [0; 1024];
    assert!(idle.read(&mut buffer).await.expect("answered") > 0);
    reveille.signal("TERM").await;
    assert_eq!(timeout(PATIENCE, idle.read(&mut buffer)).await.expect("closed in time").expect("closed"), 0);
    assert_eq!(reveille.ended().await.status.code(), Some(0));
}

/// A wrong password must end the process with a reason that does not contain the password.
/// Logs in as a user that does not exist.
#[tokio::test]
async fn a_refused_login_ends_the_process_with_a_reason() {
    let db = TestDb::new().await;
    let (_, address) = db.url().rsplit_once('@').expect("the test server's URL has a user");
    let mut serve = serve(&db, &["--log=trace"]);
    serve.env("DATABASE_URL", format!("postgres://no_such_user:hunter2@{address}"));
    let ended = run(serve).await;
    assert_eq!(ended.status.code(), Some(1), "{}", ended.output);
    assert!(ended.output.contains("reveille doctor"), "{}", ended.output);
    assert!(!ended.output.contains("hunter2"), "{}", ended.output);
}

/// The server must start without a database and become ready when there is one, become unready when it stops and ready
/// again when it returns.
/// A private PostgreSQL is stopped, started, crashed, and started again; `/health/live` is 200 all the time.
#[tokio::test]
async fn readiness_follows_the_database() {
    let Some(cluster) = PrivateCluster::start().await else { return };
    cluster.stop().await.expect("it stops");

    let mut serve = command(&["serve", "--listen=127.0.0.1:0"]);
    serve.env("DATABASE_URL", cluster.url());
    let reveille = Reveille::start(serve);
    let address = reveille.address().await;
    let answer = eventually(address, "/health", |answer| answer.body.contains("waiting for the database")).await;
    assert_eq!((answer.status, &answer.json()["status"]), (503, &"starting".into()));

    cluster.start_again().await.expect("it starts");
    eventually(address, "/health", |answer| answer.status == 200).await;

    cluster.stop_immediate().await.expect("it stops");
    let answer = eventually(address, "/health/ready", |answer| answer.status == 503).await;
    assert_eq!(answer.json()["status"], "unready");
    assert!(answer.json()["reasons"][0].as_str().is_some_and(|it| it.starts_with("database: ")), "{answer:?}");
    assert_eq!(get(address, "/health/live").await.status, 200);

    cluster.start_again().await.expect("it starts");
    eventually(address, "/health/ready", |answer| answer.status == 200).await;
    stop(reveille).await;
}
