//! Open pages follow what happens, and ask nothing while nothing happens.

use std::time::Duration;

use reveille_pg::testing::TestDb;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::browser::Browser;
use crate::process::PATIENCE;
use crate::server::Server;

/// How long no statement may be sent: ten times the shortest pause between two signals.
const WINDOW: Duration = Duration::from_secs(10);

/// Open pages must cost the database nothing while nothing happens. The role that the server logs in with is counted by
/// the database; three pages stay open, with their streams connected. A push in between shows that a change is noticed.
#[tokio::test]
async fn open_pages_send_no_statement_while_nothing_happens() {
    let Some(browser) = Browser::start().await else { return };
    let db = TestDb::new().await;
    let Some(role) = db.counting_role().await else { return };
    let server = Server::on(db, role.url(), &[]).await;
    browser.open(&server.page("wake")).await;
    for page in ["", "queues"] {
        browser.run(&format!("open({})", json!(server.page(page)))).await;
    }
    browser.says("[data-pulse]", "live").await;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let before = role.calls().await;
        sleep(WINDOW).await;
        if role.calls().await == before {
            break;
        }
        assert!(Instant::now() < deadline, "open pages keep sending statements");
    }
    let before = role.calls().await;
    server.post("/api/v1/push", json!({"items": [{"queue": "q", "payload": 1}]})).await;
    assert!(role.calls().await > before, "statements of this role are counted");
    assert!(browser.log().await.is_empty());
}
