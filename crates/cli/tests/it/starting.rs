//! The output of a start that succeeds, and of one without a usable database.

use reveille_pg::testing::{Proxy, TestDb};
use tokio::{net::TcpListener, process::Command};

use crate::{
    process::{DataDir, Reveille, command, run, up},
    serve::{ready, serve, stop},
};

/// Lines that a healthy start may print: the banner of `up` is nine of them.
const LINES: usize = 12;

/// The wait for a pooled connection: so long that only a message that does not wait for the pool comes within a test.
const NO_POOL: &str = "--acquire-timeout=1h";

/// A start must be short and must not warn of anything.
fn assert_healthy(output: &str) {
    let until_stop: Vec<&str> = output.lines().take_while(|line| !line.contains("stopping")).collect();
    let shown = until_stop.join("\n");
    assert!(until_stop.len() <= LINES, "{} lines:\n{shown}", until_stop.len());
    let complaint = |line: &&&str| [" WARN ", " ERROR "].iter().any(|level| line.contains(level));
    assert_eq!(until_stop.iter().find(complaint), None, "{shown}");
}

/// `serve` must start without a warning and print few lines, on an empty schema and on one that is up to date.
/// Starts the server twice on one schema and reads everything that it printed before the signal to stop.
#[tokio::test]
async fn a_healthy_start_of_serve_is_short_and_warns_of_nothing() {
    let db = TestDb::new().await;
    for _ in 0..2 {
        let (reveille, _) = ready(serve(&db, &[])).await;
        assert_healthy(&stop(reveille).await);
    }
}

/// `up` must start without a warning and print few lines, in a new data directory and in one that it has used.
/// Starts it twice in one directory and reads everything that it printed before the signal to stop.
#[tokio::test]
async fn a_healthy_start_of_up_is_short_and_warns_of_nothing() {
    let Some(dir) = DataDir::new() else { return };
    for _ in 0..2 {
        let reveille = Reveille::start(up(&dir).await);
        reveille.line("Ctrl-C stops both").await;
        assert_healthy(&stop(reveille).await);
    }
}

/// A port on loopback that nothing listens on.
async fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    listener.local_addr().expect("bound").port()
}

/// Every command that connects to a database, with the database at `url`.
fn commands(url: &str) -> Vec<Command> {
    let lines: [&[&str]; 7] = [
        &["serve", "--listen=127.0.0.1:0", NO_POOL],
        &["up", "--listen=127.0.0.1:0", NO_POOL],
        &["migrate", NO_POOL],
        &["migrate", "--verify", NO_POOL],
        &["migrate", "--dry-run", NO_POOL],
        &["durable", "import", "--from=elsewhere", NO_POOL],
        &["doctor", NO_POOL],
    ];
    let with_url = |line: &&[&str]| {
        let mut command = command(line);
        command.env("DATABASE_URL", url);
        command
    };
    lines.iter().map(with_url).collect()
}

/// A database that does not run must be reported at once by every command, and not as a limit of connections.
/// The servers retry, so their first warning is read; the others must end with code 1. The wait for the pool is an
/// hour.
#[tokio::test]
async fn a_database_that_does_not_run_is_named_at_once() {
    let port = free_port().await;
    let url = format!("postgres://ann:hunter2@127.0.0.1:{port}/app");
    for (number, command) in commands(&url).into_iter().enumerate() {
        let reveille = Reveille::start(command);
        if number < 2 {
            let line = reveille.line("not available yet").await;
            assert!(line.contains(&format!("cannot reach 127.0.0.1:{port}: nothing listens there")), "{line}");
            assert!(!line.contains("max_connections") && !line.contains("hunter2"), "{line}");
            stop(reveille).await;
        } else {
            let ended = reveille.ended().await;
            assert_eq!(ended.status.code(), Some(1), "{}", ended.output);
            assert!(ended.output.contains("nothing listens"), "{}", ended.output);
        }
    }
}

/// A login that the server rejects must end `serve` and `migrate` at once with the reason.
/// A wrong password, an unknown user, an unknown database, and encryption that the server does not offer; the wait for
/// the pool is an hour.
#[tokio::test]
async fn a_refused_login_is_explained_at_once() {
    let db = TestDb::new().await;
    let rest = db.url().split_once("://").expect("a URL").1;
    let (login, rest) = rest.rsplit_once('@').expect("a login");
    let (server, _) = rest.split_once('/').expect("a database");
    let user = login.split(':').next().expect("a user");
    let mut table = vec![
        (format!("postgres://{login}@{server}/no_such_database"), "there is no such database"),
        (format!("postgres://{login}@{server}/test?sslmode=require"), "sslmode"),
    ];
    if login.contains(':') {
        table.push((format!("postgres://{user}:hunter2@{server}/test"), "wrong user or password"));
        table.push((format!("postgres://no_such_user:hunter2@{server}/test"), "wrong user or password"));
    }
    for (url, reason) in table {
        for line in [&["serve", "--listen=127.0.0.1:0", NO_POOL][..], &["migrate", NO_POOL]] {
            let mut command = command(line);
            command.env("DATABASE_URL", &url);
            let ended = run(command).await;
            assert_eq!(ended.status.code(), Some(1), "{}", ended.output);
            assert!(ended.output.contains(reason), "no {reason:?} in\n{}", ended.output);
            assert!(!ended.output.contains("hunter2"), "{}", ended.output);
        }
    }
}

/// Every command must reject a server older than 14, and say that it needs a newer one.
/// A proxy in front of the test server changes the version that the server reports; no such server is installed here.
#[tokio::test]
async fn every_command_refuses_a_server_that_is_too_old() {
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    proxy.pretend_version(13);
    for command in commands(proxy.url()) {
        let ended = run(command).await;
        assert_eq!(ended.status.code(), Some(1), "{}", ended.output);
        assert!(ended.output.contains("is PostgreSQL 13, Reveille needs 14 or newer"), "{}", ended.output);
    }
}
