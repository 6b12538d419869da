//! `reveille up`: PostgreSQL and the server start and stop together.

use reveille_pg::testing::TestDb;
use tokio::net::TcpListener;

use crate::{
    http::{eventually, get},
    process::{DataDir, Reveille, run, runs, signal, up},
};

/// Waits until it has printed how to stop it.
async fn ready(reveille: &Reveille) {
    reveille.line("Ctrl-C stops both").await;
}

/// `up` must work on a new directory and again on the same one, and Ctrl-C must stop the server and PostgreSQL.
/// Twice in a row; each time PostgreSQL's process must have ended, and the exit code must be 0.
#[tokio::test]
async fn up_works_twice_in_a_row_and_ctrl_c_stops_both() {
    let Some(dir) = DataDir::new() else { return };
    for _ in 0..2 {
        let reveille = Reveille::start(up(&dir).await);
        ready(&reveille).await;
        assert_eq!(get(reveille.address().await, "/health").await.status, 200);
        let postgres = dir.postgres().expect("PostgreSQL runs");
        assert!(runs(postgres).await);
        reveille.signal("INT").await;
        let ended = reveille.ended().await;
        assert_eq!(ended.status.code(), Some(0), "{}", ended.output);
        assert!(!runs(postgres).await, "PostgreSQL still runs:\n{}", ended.output);
        assert_eq!(dir.postgres(), None, "PostgreSQL did not stop in good order");
    }
}

/// The banner must contain all addresses and paths, and no password.
/// Reads it, and searches it for the password that is in the data directory.
#[tokio::test]
async fn the_banner_says_where_everything_is() {
    let Some(dir) = DataDir::new() else { return };
    let reveille = Reveille::start(up(&dir).await);
    ready(&reveille).await;
    let password = std::fs::read_to_string(dir.path().join("password")).expect("the password is kept");
    reveille.signal("TERM").await;
    let output = reveille.ended().await.output;
    for part in ["/console", "/openapi.json", &dir.path().display().to_string(), "postgresql.log", "on 127.0.0.1:"] {
        assert!(output.contains(part), "{part} is not in\n{output}");
    }
    assert!(!output.contains(password.trim()), "{output}");
}

/// A process that is killed leaves PostgreSQL running; the next `up` must use it, and stop it at its own end.
/// Kills with SIGKILL, then starts again on the same directory.
#[tokio::test]
async fn up_after_sigkill_uses_the_running_postgresql() {
    let Some(dir) = DataDir::new() else { return };
    let first = Reveille::start(up(&dir).await);
    ready(&first).await;
    let postgres = dir.postgres().expect("PostgreSQL runs");
    first.signal("KILL").await;
    first.ended().await;
    assert!(runs(postgres).await, "PostgreSQL went with its owner");

    let second = Reveille::start(up(&dir).await);
    second.line("was already running").await;
    ready(&second).await;
    assert_eq!(dir.postgres(), Some(postgres));
    second.signal("INT").await;
    assert_eq!(second.ended().await.status.code(), Some(0));
    assert!(!runs(postgres).await);
}

/// A second `up` on a directory must fail and name the first one's process, without stopping its PostgreSQL.
/// Starts the second while the first serves; afterwards the first must still be ready.
#[tokio::test]
async fn a_second_up_on_one_directory_is_rejected() {
    let Some(dir) = DataDir::new() else { return };
    let first = Reveille::start(up(&dir).await);
    ready(&first).await;
    let owner = std::fs::read_to_string(dir.path().join("owner")).expect("the owner is written down");

    let second = run(up(&dir).await).await;
    assert_eq!(second.status.code(), Some(1), "{}", second.output);
    assert!(second.output.contains(&format!("(process {})", owner.trim())), "{}", second.output);
    assert!(second.output.contains("--data-dir"), "{}", second.output);

    assert_eq!(get(first.address().await, "/health").await.status, 200);
    first.signal("INT").await;
    assert_eq!(first.ended().await.status.code(), Some(0));
}

/// If two start in a new directory at once, one must serve and the other must fail, whichever it is.
/// Waits for the failure of either; the other must then serve and stop in order.
#[tokio::test]
async fn two_that_start_at_once_do_not_share_a_postgresql() {
    let Some(dir) = DataDir::new() else { return };
    let (one, two) = (Reveille::start(up(&dir).await), Reveille::start(up(&dir).await));
    let (served, refused) = tokio::select! {
        _ = one.line("another `reveille up`") => (two, one),
        _ = two.line("another `reveille up`") => (one, two),
    };
    ready(&served).await;
    let refused = refused.ended().await;
    assert_eq!(refused.status.code(), Some(1), "{}", refused.output);
    assert_eq!(get(served.address().await, "/health").await.status, 200);
    served.signal("INT").await;
    assert_eq!(served.ended().await.status.code(), Some(0));
    assert_eq!(dir.postgres(), None);
}

/// While PostgreSQL is being started, the address must answer that it is not ready, and Ctrl-C must stop everything.
/// The test delays the start by holding the lock that a start takes.
#[tokio::test]
async fn a_start_in_progress_answers_and_obeys_ctrl_c() {
    let Some(dir) = DataDir::new() else { return };
    let first = Reveille::start(up(&dir).await);
    ready(&first).await;
    first.signal("INT").await;
    assert_eq!(first.ended().await.status.code(), Some(0));

    let lock = std::fs::File::options().write(true).open(dir.path().join("lock")).expect("a start has made it");
    lock.lock().expect("lock the start");
    let port = TcpListener::bind("127.0.0.1:0").await.expect("a free port").local_addr().expect("bound").port();
    let mut up = up(&dir).await;
    up.args(["--listen", &format!("localhost:{port}")]);
    let reveille = Reveille::start(up);
    reveille.line("starting PostgreSQL in").await;
    let address = ([127, 0, 0, 1], port).into();
    let answer = get(address, "/health").await;
    assert_eq!((answer.status, &answer.json()["reasons"][0]), (503, &"starting PostgreSQL".into()));
    assert_eq!(get(address, "/health/live").await.status, 200);
    assert_eq!(get(address, "/api/anything").await.status, 503);

    reveille.signal("INT").await;
    reveille.line("stopping as soon as PostgreSQL has started").await;
    lock.unlock().expect("unlocked");
    let ended = reveille.ended().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.output);
    assert_eq!(dir.postgres(), None, "PostgreSQL was left behind");
}

/// Closing the terminal must stop both, as Ctrl-C does.
/// Sends SIGHUP.
#[tokio::test]
async fn a_closed_terminal_stops_both() {
    let Some(dir) = DataDir::new() else { return };
    let reveille = Reveille::start(up(&dir).await);
    ready(&reveille).await;
    reveille.signal("HUP").await;
    let ended = reveille.ended().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.output);
    assert_eq!(dir.postgres(), None, "PostgreSQL was left behind");
}

/// After both `up` and PostgreSQL were killed, the next `up` must recover.
/// Kills both with SIGKILL, which leaves a stale pid file behind.
#[tokio::test]
async fn up_after_everything_was_killed_recovers() {
    let Some(dir) = DataDir::new() else { return };
    let first = Reveille::start(up(&dir).await);
    ready(&first).await;
    let postgres = dir.postgres().expect("PostgreSQL runs");
    first.signal("KILL").await;
    signal(postgres, "KILL").await;
    first.ended().await;

    let second = Reveille::start(up(&dir).await);
    ready(&second).await;
    assert_eq!(get(second.address().await, "/health").await.status, 200);
    assert_ne!(dir.postgres(), Some(postgres));
    second.signal("INT").await;
    assert_eq!(second.ended().await.status.code(), Some(0));
}

/// If PostgreSQL exits while the server runs, it must be restarted, and the server must work again; Ctrl-C must still
/// stop both.
/// Kills PostgreSQL's first process twice.
#[tokio::test]
async fn a_postgresql_that_exits_is_restarted() {
    let Some(dir) = DataDir::new() else { return };
    let reveille = Reveille::start(up(&dir).await);
    ready(&reveille).await;
    let address = reveille.address().await;
    for round in 1..=2 {
        let killed = dir.postgres().expect("PostgreSQL runs");
        signal(killed, "KILL").await;
        let line = reveille.lines("PostgreSQL exited unexpectedly", round).await;
        assert!(line.contains("postgresql.log"), "{line}");
        reveille.lines("PostgreSQL runs again", round).await;
        assert_ne!(dir.postgres(), Some(killed));
        eventually(address, "/health/ready", |answer| answer.status == 200).await;
    }
    assert_eq!(get(address, "/health/live").await.status, 200);
    reveille.signal("INT").await;
    let ended = reveille.ended().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.output);
    assert_eq!(dir.postgres(), None, "PostgreSQL was left behind");
}

/// A PostgreSQL that cannot be restarted must not be tried for ever: `up` exits with the reason.
/// Removes a file that every start needs, and kills PostgreSQL's first process.
#[tokio::test]
async fn up_ends_if_postgresql_cannot_be_restarted() {
    let Some(dir) = DataDir::new() else { return };
    let reveille = Reveille::start(up(&dir).await);
    ready(&reveille).await;
    let postgres = dir.postgres().expect("PostgreSQL runs");
    std::fs::remove_file(dir.path().join("data/global/pg_control")).expect("removed");
    signal(postgres, "KILL").await;
    let ended = reveille.ended().await;
    assert_eq!(ended.status.code(), Some(1), "{}", ended.output);
    assert!(ended.output.contains("failed to start 5 times in a row"), "{}", ended.output);
    assert!(ended.output.contains("postgresql.log"), "{}", ended.output);
    // No process runs that it could name.
    std::fs::remove_file(dir.path().join("data/postmaster.pid")).expect("a killed server leaves it");
}

/// Settings for another database, such as those of a pooler, must not apply to the private PostgreSQL.
/// A direct URL that points to no server, and no `DATABASE_URL`; no check may be degraded.
#[tokio::test]
async fn a_private_postgresql_is_reached_directly() {
    let Some(dir) = DataDir::new() else { return };
    let mut up = up(&dir).await;
    up.env("REVEILLE_POOLER", "true").env("REVEILLE_DIRECT_URL", "postgres://ann@127.0.0.1:1/elsewhere");
    let reveille = Reveille::start(up);
    ready(&reveille).await;
    let address = reveille.address().await;
    eventually(address, "/health", |answer| answer.status == 200 && answer.json()["degraded"].is_null()).await;
    reveille.signal("INT").await;
    assert_eq!(reveille.ended().await.status.code(), Some(0));
}

/// With `DATABASE_URL` set, `up` must use that database, print so, and start no PostgreSQL.
/// The data directory must not be created, either.
#[tokio::test]
async fn up_with_a_database_url_starts_nothing() {
    let db = TestDb::new().await;
    let Some(dir) = DataDir::new() else { return };
    let mut up = up(&dir).await;
    up.env("DATABASE_URL", db.url()).env("REVEILLE_SCHEMA", db.schema().name());
    let reveille = Reveille::start(up);
    reveille.line("DATABASE_URL is set: using that database, starting no PostgreSQL").await;
    eventually(reveille.address().await, "/health", |answer| answer.status == 200).await;
    assert!(!dir.path().exists());
    reveille.signal("INT").await;
    assert_eq!(reveille.ended().await.status.code(), Some(0));
}

/// A port in use must be detected before PostgreSQL is started.
/// The data directory must not be created, either.
#[tokio::test]
async fn a_port_in_use_starts_no_postgresql() {
    let Some(dir) = DataDir::new() else { return };
    let taken = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let mut up = up(&dir).await;
    up.args(["--listen", &address]);
    let ended = run(up).await;
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.output.contains("already in use"), "{}", ended.output);
    assert!(!dir.path().exists());
}

/// A directory with other files must not be changed, with an error that names it.
/// Puts a file into it first.
#[tokio::test]
async fn a_directory_with_other_files_is_not_changed() {
    let Some(dir) = DataDir::new() else { return };
    std::fs::create_dir(dir.path()).expect("made");
    std::fs::write(dir.path().join("precious"), "mine").expect("written");
    let ended = run(up(&dir).await).await;
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.output.contains(&dir.path().display().to_string()), "{}", ended.output);
    assert_eq!(std::fs::read_dir(dir.path()).expect("there").count(), 1);
}
