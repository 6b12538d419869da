//! `reveille top` and the drawing of `reveille task watch`, on a terminal.

use std::time::Duration;

use reveille_pg::testing::TestDb;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{fixture::run, tmux::Terminal};
use crate::flow::fixture::Server as Flow;
use crate::process::PATIENCE;
use crate::queue::fixture::{Client, Server};
use crate::serve::{ready, serve};

fn top(client: &Client) -> Option<Terminal> {
    Terminal::run(&["top", "--server", &format!("http://{}", client.address)])
}

/// The view must show what changes without a key being pressed, switch tabs, scroll and end.
/// Pushes to a real server while a terminal shows it.
#[tokio::test]
async fn top_shows_changes_as_they_happen() {
    let server = Server::start().await;
    let Some(terminal) = top(&server) else { return };
    terminal.shows("nothing needs attention").await;
    terminal.shows("● live").await;
    terminal.press(&["2"]);
    terminal.shows("nothing here yet").await;
    server.push("orders\u{1b}[31m", "p", &["t1", "t2"]).await;
    let screen = terminal.shows("orders\\u{1b}[31m").await;
    assert!(screen.contains("QUEUE") && screen.contains("2 Queues"), "{screen}");
    server.push("orders\u{1b}[31m", "p", &["t3"]).await;
    let counted = |screen: &str| {
        screen.lines().any(|line| line.starts_with("orders") && line.split_whitespace().nth(1) == Some("3"))
    };
    terminal.until(counted).await;

    server.pop("queue/orders%1B%5B31m?consumerGroup=billing").await;
    terminal.press(&["3"]);
    terminal.shows("billing").await;
    terminal.press(&["4"]);
    terminal.shows("nothing here yet").await;
    terminal.press(&["Right"]);
    let wake = terminal.shows("waiting pops").await;
    assert!(wake.contains("connected"), "{wake}");
    terminal.press(&["2"]);
    for queue in 0..40 {
        server.push(&format!("queue-{queue:02}"), "p", &["t"]).await;
    }
    terminal.shows(" of 41 ").await;
    terminal.press(&["NPage", "NPage", "NPage"]);
    let scrolled = terminal.shows("queue-39").await;
    assert!(
        scrolled.contains("QUEUE") && scrolled.contains("41 of 41") && !scrolled.contains("queue-02"),
        "{scrolled}"
    );
    terminal.press(&["q"]);
    terminal.ends().await;
}

/// A view of an idle server must cause no statement in its database.
/// The database counts the statements of the server's role while the view is open; a push in between shows that they
/// are counted.
#[tokio::test]
async fn an_open_top_of_an_idle_server_causes_no_statement() {
    const WINDOW: Duration = Duration::from_secs(5);
    let db = TestDb::new().await;
    let Some(role) = db.counting_role().await else { return };
    let mut command = serve(&db, &[]);
    command.env("DATABASE_URL", role.url());
    let (_reveille, address) = ready(command).await;
    let client = Client { address };
    client.push("orders", "p", &["t1"]).await;
    let Some(terminal) = top(&client) else { return };
    terminal.shows("● live").await;
    for tab in ["1", "2", "4"] {
        terminal.press(&[tab]);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let before = role.statements().await;
            sleep(WINDOW).await;
            let mut since = role.statements().await;
            if since == before {
                break;
            }
            since.retain(|statement| !before.contains(statement));
            assert!(Instant::now() < deadline, "still sent in the last {WINDOW:?}: {since:#?}");
        }
        let before = role.calls().await;
        client.push("orders", "p", &[&format!("after {tab}")]).await;
        assert!(role.calls().await > before, "statements of this role are counted");
    }
}

/// The view must survive a restart of its server, and say meanwhile that it is not connected.
/// Stops the server, and starts another at the same address.
#[tokio::test]
async fn top_connects_again() {
    let db = TestDb::new().await;
    let (reveille, address) = ready(serve(&db, &[])).await;
    let client = Client { address };
    client.push("before", "p", &["t1"]).await;
    let Some(terminal) = top(&client) else { return };
    terminal.shows("● live").await;
    crate::serve::stop(reveille).await;
    terminal.shows("○ ").await;
    let mut again = serve(&db, &[]);
    again.env("REVEILLE_LISTEN", address.to_string());
    let (_reveille, _) = ready(again).await;
    client.push("behind", "p", &["t1"]).await;
    terminal.shows("● live").await;
    terminal.press(&["2"]);
    terminal.shows("behind").await;
}

/// Without a terminal there is nothing to draw on, and an unreachable server is an ordinary error.
/// Runs it with its output in a pipe, and on a terminal without a server.
#[tokio::test]
async fn top_needs_a_terminal() {
    run("http://127.0.0.1:1", &["top"], &[], "").await.fails(2, "needs a terminal");
    run("http://127.0.0.1:1", &["top", "--json"], &[], "").await.fails(2, "--json");
}

/// A watched task must be drawn again where it was drawn before, and the last drawing must stay.
/// A task with two steps, one of which is completed while it is watched.
#[tokio::test]
async fn a_watched_task_is_drawn_in_place() {
    let server =
        Flow::of("[{name: one, handler: {callable: a}}, {name: two, handler: {callable: b}, dependencies: [one]}]")
            .await;
    let task = server.task(json!({})).await;
    let server_url = format!("http://{}", server.address);
    let Some(terminal) = Terminal::run(&["task", "watch", &task, "--server", &server_url]) else { return };
    terminal.shows("○ one  enqueued").await;
    let claim = json!({"worker": "w", "namespaces": ["tests"], "steps": ["one"]});
    let claimed = server.post("workers/claim", &claim).await.json();
    let screen = terminal.shows("◐ one  in_progress").await;
    assert!(screen.contains("waits for one") && !screen.contains("○ one"), "{screen}");
    server.report("complete", json!([{"token": claimed["steps"][0]["token"], "result": 1}])).await;
    let screen = terminal.shows("● one  complete").await;
    assert_eq!(screen.matches("STEP ").count(), 1, "{screen}");
    // Ctrl-C ends the command, not the task.
    terminal.press(&["C-c"]);
    terminal.ends().await;
}
