//! An idle server sends no statements to the database.

use std::time::Duration;

use reveille_pg::testing::{CountingRole, TestDb};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::http::{get, send};
use crate::process::PATIENCE;
use crate::serve::{quiet, ready, serve};

/// How long no statement may be sent: many times the intervals below.
const WINDOW: Duration = Duration::from_secs(3);
/// The interval of maintenance, so that the window has as many occasions as a quarter of an hour has by default.
const OFTEN: [&str; 4] = ["--retention-interval", "200", "--eviction-interval", "200"];
const JSON: &str = "content-type: application/json";

/// Waits for a window in which the role sends no statement, while the server's metrics are requested repeatedly.
async fn falls_silent(role: &CountingRole, address: std::net::SocketAddr) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let before = role.statements().await;
        let end = Instant::now() + WINDOW;
        while Instant::now() < end {
            assert_eq!(get(address, "/metrics").await.status, 200);
            sleep(WINDOW / 10).await;
        }
        let mut since = role.statements().await;
        if since == before {
            return;
        }
        since.retain(|statement| !before.contains(statement));
        assert!(Instant::now() < deadline, "still sent in the last {WINDOW:?}: {since:#?}");
    }
}

/// An idle server must send no statement, whether or not it has worked before, and although it is scraped.
/// The database counts the statements of the role that the server logs in with. Maintenance may run five times a
/// second, so that a long interval is not the reason. Work in between shows that the statements of this role are
/// counted.
#[tokio::test]
async fn an_idle_server_sends_no_statement() {
    let db = TestDb::new().await;
    let Some(role) = db.counting_role().await else { return };
    let mut command = serve(&db, &OFTEN);
    command.env("DATABASE_URL", role.url());
    let (reveille, address) = ready(command).await;
    falls_silent(&role, address).await;

    let before = role.calls().await;
    let configured = json!({"queue": "q", "options": {"retentionEnabled": true, "retentionSeconds": 3600, "maxWaitTimeSeconds": 3600}});
    let pushed = json!({"items": [{"queue": "q", "payload": 1}]});
    for (path, body) in [("configure", &configured), ("push", &pushed)] {
        let answer = send(address, "POST", &format!("/api/v1/{path}"), &[JSON], body.to_string().as_bytes()).await;
        assert!(answer.status < 300, "{path}: {answer:?}");
    }
    assert_eq!(get(address, "/api/v1/pop/queue/q?autoAck=true&wait=true").await.status, 200);
    assert!(role.calls().await > before, "statements of this role are counted");
    falls_silent(&role, address).await;
    quiet(reveille).await;
}
