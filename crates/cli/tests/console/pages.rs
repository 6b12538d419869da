//! Every page of the console's frame, in both themes and at both widths.

use serde_json::json;

use crate::browser::{Browser, LAPTOP, PHONE, Theme};
use crate::server::Server;

/// The pages that have no parameters.
const PAGES: [&str; 5] = ["", "queues", "tasks", "durable", "wake"];

/// A name that tries to become a part of the page.
pub(crate) const HOSTILE: &str = "<img src=x onerror=\"document.title='broken'\">'\"&lt;/script>{{7*7}}";

/// Every page must be usable in both themes, on a laptop and on a phone: no error in the log, no accessibility fault,
/// nothing wider than the window. Opens each of them, on a server with some contents.
#[tokio::test]
async fn every_page_is_usable_in_both_themes_and_widths() {
    let Some(browser) = Browser::start().await else { return };
    let server = Server::start(&[]).await;
    let items = json!({"items": [{"queue": "orders", "payload": {"n": 1}}, {"queue": HOSTILE, "payload": HOSTILE}]});
    server.post("/api/v1/push", items).await;
    for theme in [Theme::Light, Theme::Dark] {
        browser.theme(theme).await;
        for size in [LAPTOP, PHONE] {
            browser.resize(size).await;
            for page in PAGES {
                browser.open(&server.page(page)).await;
                browser.says("[data-pulse]", "live").await;
                browser.check().await;
                assert!(!browser.text("h1").await.is_empty(), "{page:?}");
                assert_ne!(browser.run("return document.title").await, "broken", "{page:?}");
            }
        }
    }
}

/// An unknown page must say so, with its status, inside the console.
#[tokio::test]
async fn an_unknown_page_is_a_page_that_says_so() {
    let Some(browser) = Browser::start().await else { return };
    let server = Server::start(&[]).await;
    assert_eq!(server.get("/console/no/such/page").await.status, 404);
    browser.open(&server.page("no/such/page")).await;
    assert_eq!(browser.text("h1").await, "Not found");
    browser.click(".bar nav a[data-key=q]").await;
    browser.until("location.pathname === '/console/queues'").await;
}

/// Every page must be readable without scripts: titles, contents, links.
#[tokio::test]
async fn pages_can_be_read_without_scripts() {
    let Some(browser) = Browser::start().await else { return };
    let server = Server::start(&[]).await;
    browser.scripts(false).await;
    for (page, title) in PAGES.into_iter().zip(["Overview", "Queues", "Tasks", "Durable", "Wake"]) {
        browser.open(&server.page(page)).await;
        assert_eq!(browser.text("h1").await, title);
        assert_eq!(browser.text(".bar nav a[aria-current]").await.trim(), title);
    }
}

/// Every answer must carry the policy that forbids whatever is not this server's own, and pages must contain nothing
/// inline. Reads the pages as text.
#[tokio::test]
async fn pages_contain_nothing_inline_and_forbid_it() {
    let server = Server::start(&[]).await;
    for page in PAGES {
        let answer = server.get(&format!("/console{}{page}", if page.is_empty() { "" } else { "/" })).await;
        assert_eq!(answer.status, 200, "{page}");
        for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "nosniff"] {
            assert!(answer.headers.contains(part), "{page}: {}", answer.headers);
        }
        for inline in [" style=\"", " onclick=", "<style", "javascript:"] {
            assert!(!answer.body.contains(inline), "{page} contains {inline}");
        }
    }
}
