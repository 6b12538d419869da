//! `reveille up`: PostgreSQL and the server as one thing that starts and stops together.

use reveille_pg::testing::TestDb;
use tokio::net::TcpListener;

use crate::{
    http::{eventually, get},
    process::{DataDir, Reveille, run, runs, signal, up},
};

/// Waits until it has said how it can be stopped.
async fn ready(reveille: &Reveille) {
    reveille.line("Ctrl-C stops both").await;
}

/// `up` must work on a new directory and again on the same one, and Ctrl-C must stop the server and PostgreSQL.
/// Does it twice in a row; each time PostgreSQL's process must be gone after the end, and the end must be clean.
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
        assert_eq!(ended.status.code(), Some(0), "{}", ended.said);
        assert!(!runs(postgres).await, "PostgreSQL still runs:\n{}", ended.said);
        assert_eq!(dir.postgres(), None, "PostgreSQL did not stop in good order");
    }
}

/// The banner must say where everything is, and hold no password.
/// Reads it, and looks for the password that is in the data directory.
#[tokio::test]
async fn the_banner_says_where_everything_is() {
    let Some(dir) = DataDir::new() else { return };
    let reveille = Reveille::start(up(&dir).await);
    ready(&reveille).await;
    let password = std::fs::read_to_string(dir.path().join("password")).expect("the password is kept");
    reveille.signal("TERM").await;
    let said = reveille.ended().await.said;
    for part in ["/health", "/metrics", &dir.path().display().to_string(), "postgresql.log", "on 127.0.0.1:"] {
        assert!(said.contains(part), "{part} is not in\n{said}");
    }
    assert!(!said.contains(password.trim()), "{said}");
}

/// A process that is killed leaves PostgreSQL running; the next `up` must find it and stop it in the end.
/// Kills with SIGKILL, then starts again on the same directory.
#[tokio::test]
async fn up_after_kill_9_carries_on_with_the_same_postgresql() {
    let Some(dir) = DataDir::new() else { return };
    let first = Reveille::start(up(&dir).await);
    ready(&first).await;
    let postgres = dir.postgres().expect("PostgreSQL runs");
    first.signal("KILL").await;
    first.ended().await;
    assert!(runs(postgres).await, "PostgreSQL went with its owner");

    let second = Reveille::start(up(&dir).await);
    second.line("still running").await;
    ready(&second).await;
    assert_eq!(dir.postgres(), Some(postgres));
    second.signal("INT").await;
    assert_eq!(second.ended().await.status.code(), Some(0));
    assert!(!runs(postgres).await);
}

/// A second `up` on a directory must be refused with the first one's process, and leave its PostgreSQL alone.
/// Starts the second while the first serves; afterwards the first must still be ready.
#[tokio::test]
async fn a_second_up_on_one_directory_is_refused() {
    let Some(dir) = DataDir::new() else { return };
    let first = Reveille::start(up(&dir).await);
    ready(&first).await;
    let owner = std::fs::read_to_string(dir.path().join("owner")).expect("the owner is written down");

    let second = run(up(&dir).await).await;
    assert_eq!(second.status.code(), Some(1), "{}", second.said);
    assert!(second.said.contains(&format!("(process {})", owner.trim())), "{}", second.said);
    assert!(second.said.contains("--data-dir"), "{}", second.said);

    assert_eq!(get(first.address().await, "/health").await.status, 200);
    first.signal("INT").await;
    assert_eq!(first.ended().await.status.code(), Some(0));
}

/// Of two that start in a new directory at once, one must serve and the other must be refused, whichever it is.
/// Waits for the refusal of either; the other must then serve and stop in good order.
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
    assert_eq!(refused.status.code(), Some(1), "{}", refused.said);
    assert_eq!(get(served.address().await, "/health").await.status, 200);
    served.signal("INT").await;
    assert_eq!(served.ended().await.status.code(), Some(0));
    assert_eq!(dir.postgres(), None);
}

/// While PostgreSQL is being started, the address must answer that it is not ready, and Ctrl-C must be obeyed with nothing left
/// running.
/// The start is held up by the test, which holds the lock that a start takes.
#[tokio::test]
async fn a_start_under_way_answers_and_obeys_ctrl_c() {
    let Some(dir) = DataDir::new() else { return };
    let first = Reveille::start(up(&dir).await);
    ready(&first).await;
    first.signal("INT").await;
    assert_eq!(first.ended().await.status.code(), Some(0));

    let lock = std::fs::File::options().write(true).open(dir.path().join("lock")).expect("a start has made it");
    lock.lock().expect("nobody starts");
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
    assert_eq!(ended.status.code(), Some(0), "{}", ended.said);
    assert_eq!(dir.postgres(), None, "PostgreSQL was left behind");
}

/// Closing the terminal must stop both, as Ctrl-C does.
/// Sends the signal that a closed terminal sends.
#[tokio::test]
async fn a_closed_terminal_stops_both() {
    let Some(dir) = DataDir::new() else { return };
    let reveille = Reveille::start(up(&dir).await);
    ready(&reveille).await;
    reveille.signal("HUP").await;
    let ended = reveille.ended().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.said);
    assert_eq!(dir.postgres(), None, "PostgreSQL was left behind");
}

/// When everything was killed, PostgreSQL included, the next `up` must recover.
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

/// When PostgreSQL dies under the server, it must be started again, and the server must work again; Ctrl-C must still end both.
/// Kills PostgreSQL's first process twice.
#[tokio::test]
async fn a_postgresql_that_dies_is_started_again() {
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
    assert_eq!(ended.status.code(), Some(0), "{}", ended.said);
    assert_eq!(dir.postgres(), None, "PostgreSQL was left behind");
}

/// A PostgreSQL that cannot be started again must not be tried for ever: `up` ends with the reason.
/// Takes a file away that every start needs, and kills PostgreSQL's first process.
#[tokio::test]
async fn a_postgresql_that_does_not_start_again_is_given_up() {
    let Some(dir) = DataDir::new() else { return };
    let reveille = Reveille::start(up(&dir).await);
    ready(&reveille).await;
    let postgres = dir.postgres().expect("PostgreSQL runs");
    std::fs::remove_file(dir.path().join("data/global/pg_control")).expect("removed");
    signal(postgres, "KILL").await;
    let ended = reveille.ended().await;
    assert_eq!(ended.status.code(), Some(1), "{}", ended.said);
    assert!(ended.said.contains("failed to start 5 times in a row"), "{}", ended.said);
    assert!(ended.said.contains("postgresql.log"), "{}", ended.said);
    // Nothing runs that it could name.
    std::fs::remove_file(dir.path().join("data/postmaster.pid")).expect("a killed server leaves it");
}

/// What the environment says about poolers of another database must not reach the private PostgreSQL.
/// A direct URL that leads nowhere, and no `DATABASE_URL`; nothing may be degraded.
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

/// With `DATABASE_URL` set, `up` must use that database, say so, and start nothing.
/// The data directory must not even be made.
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

/// A taken port must be found before anything is started.
/// The data directory must not even be made.
#[tokio::test]
async fn a_port_in_use_starts_no_postgresql() {
    let Some(dir) = DataDir::new() else { return };
    let taken = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let mut up = up(&dir).await;
    up.args(["--listen", &address]);
    let ended = run(up).await;
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.said.contains("already in use"), "{}", ended.said);
    assert!(!dir.path().exists());
}

/// A directory that belongs to something else must be left alone, with an error that names it.
/// Puts a file into it first.
#[tokio::test]
async fn a_foreign_directory_is_left_alone() {
    let Some(dir) = DataDir::new() else { return };
    std::fs::create_dir(dir.path()).expect("made");
    std::fs::write(dir.path().join("precious"), "mine").expect("written");
    let ended = run(up(&dir).await).await;
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.said.contains(&dir.path().display().to_string()), "{}", ended.said);
    assert_eq!(std::fs::read_dir(dir.path()).expect("there").count(), 1);
}
