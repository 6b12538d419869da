//! Queues in the browser: every page, and every action on it.

use serde_json::{Value, json};

use crate::browser::{Browser, LAPTOP, PHONE, Theme};
use crate::pages::HOSTILE;
use crate::server::Server;

/// A browser at the page of a queue.
struct Visitor {
    browser: Browser,
    server: Server,
}

impl Visitor {
    async fn new() -> Option<Visitor> {
        let browser = Browser::start().await?;
        Some(Visitor { browser, server: Server::start(&[]).await })
    }

    async fn open(&self, page: &str) {
        self.browser.open(&self.server.page(page)).await;
        self.browser.appears("html[data-script]").await;
    }

    /// Opens the dialog of an action.
    async fn begin(&self, label: &str) {
        self.begin_in("main", label).await;
    }

    /// The same in a part of the page. In one step: a live part may be exchanged between finding and clicking.
    async fn begin_in(&self, part: &str, label: &str) {
        let label = json!(label);
        let button = json!(format!("{part} .action:has(> dialog[aria-label={label}]) > button"));
        self.browser.until(&format!("document.querySelector({button})")).await;
        self.browser.run(&format!("document.querySelector({button}).click()")).await;
        self.browser.appears(&format!("dialog[open][aria-label={label}]")).await;
    }

    /// Goes to the page of the first link that matches.
    async fn follow(&self, selector: &str) {
        self.browser.appears(selector).await;
        let link = self.browser.run(&format!("return document.querySelector({}).href", json!(selector))).await;
        self.browser.open(link.as_str().expect("a link")).await;
        self.browser.appears("html[data-script]").await;
    }

    async fn fill(&self, path: &str, text: &str) {
        self.browser.fill(&format!("dialog[open] [data-path={}]", json!(path)), text).await;
    }

    async fn confirm(&self, word: &str) {
        let submit = "document.querySelector('dialog[open] [type=submit]').disabled";
        self.browser.until(submit).await;
        self.browser.fill("dialog[open] [data-confirm]", word).await;
    }

    async fn submit(&self) {
        self.browser.until("!document.querySelector('dialog[open] [type=submit]').disabled").await;
        self.browser.click("dialog[open] [type=submit]").await;
    }

    /// Submits, and waits until the dialog is closed.
    async fn finish(&self) {
        self.submit().await;
        self.browser.until("!document.querySelector('dialog[open]')").await;
    }

    async fn push(&self, queue: &str, transactions: &[&str]) {
        let item = |id: &&str| json!({"queue": queue, "partition": "p", "transactionId": id, "payload": {"id": id}});
        let items: Vec<Value> = transactions.iter().map(item).collect();
        self.server.post("/api/v1/push", json!({"items": items})).await;
    }

    /// A pop by the group `billing`.
    async fn pop(&self, queue: &str, batch: usize) -> Value {
        let path = format!("/api/v1/pop/queue/{queue}?consumerGroup=billing&batch={batch}");
        let answer = self.server.get(&path).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// Makes dead letters of all messages of a pop.
    async fn give_up(&self, popped: &Value, error: &str) {
        let ack = |message: &Value| {
            json!({
                "transactionId": message["transactionId"], "partitionId": message["partitionId"],
                "leaseId": message["leaseId"], "consumerGroup": "billing", "status": "dlq", "error": error,
            })
        };
        let acks: Vec<Value> = popped["messages"].as_array().expect("messages").iter().map(ack).collect();
        self.server.post("/api/v1/ack/batch", json!({"acknowledgments": acks})).await;
    }

    async fn json(&self, path: &str) -> Value {
        self.server.get(path).await.json()
    }
}

/// The form must check the payload in the browser, send its digits as they are, and the message must appear on the page
/// that is open, and be shown with all digits on its own page.
#[tokio::test]
async fn a_message_is_pushed() {
    let Some(visitor) = Visitor::new().await else { return };
    let browser = &visitor.browser;
    visitor.push("orders", &["first"]).await;
    visitor.open("queues/orders").await;
    browser.says("[data-live=messages]", "first").await;
    visitor.begin("Push").await;
    visitor.fill("items.0.payload", "{\"total\": }").await;
    visitor.submit().await;
    browser.says("dialog[open] [data-outcome]", "not valid JSON").await;
    visitor.fill("items.0.payload", "{\"total\": 12345678901234567890.10}").await;
    visitor.fill("items.0.transactionId", "second").await;
    browser.until("document.querySelector('dialog[open] [data-curl]').textContent.includes('second')").await;
    visitor.finish().await;
    browser.says("[data-live=messages]", "second").await;
    browser.check().await;
    visitor.follow("[data-live=messages] tbody tr:first-child a").await;
    browser.says("h1", "second").await;
    browser.says(".json", "12345678901234567890.10").await;
    browser.check().await;
}

/// A queue is created, paused, resumed, configured, cleared and deleted from its page; what destroys something needs the
/// queue's name first.
#[tokio::test]
async fn a_queue_is_operated() {
    let Some(visitor) = Visitor::new().await else { return };
    let browser = &visitor.browser;
    visitor.open("queues").await;
    visitor.begin("New queue").await;
    visitor.fill("queue", "orders").await;
    visitor.finish().await;
    browser.says("[data-live=queues]", "orders").await;
    visitor.push("orders", &["1"]).await;
    visitor.open("queues/orders").await;
    visitor.begin("Pause").await;
    visitor.finish().await;
    browser.says("[data-live=facts]", "paused").await;
    assert!(visitor.json("/v1/queues/orders").await["paused_at"].is_string());
    visitor.open("queues/orders?tab=options").await;
    visitor.begin("Resume").await;
    visitor.finish().await;
    browser.says("[data-live=facts]", "delivering").await;
    visitor.begin("Configure").await;
    visitor.fill("options.leaseTime", "0").await;
    visitor.submit().await;
    browser.says("dialog[open] [data-outcome]", "must be between 1 and 604800").await;
    let log = browser.log().await;
    assert!(log.len() == 1 && log[0].contains("400"), "only the rejected request: {log:?}");
    visitor.fill("options.leaseTime", "77").await;
    visitor.finish().await;
    browser.says("[data-live=options]", "77").await;
    assert_eq!(visitor.json("/v1/queues/orders").await["options"]["ttl"], Value::Null, "it stays as it was");
    browser.check().await;
    visitor.begin("Clear").await;
    visitor.confirm("orders").await;
    visitor.finish().await;
    assert_eq!(visitor.json("/v1/queues/orders").await["messages"], 0);
    visitor.begin("Delete").await;
    browser.says("dialog[open]", "everything in it").await;
    visitor.confirm("orders").await;
    visitor.finish().await;
    browser.until("location.pathname === '/console/queues'").await;
    browser.says("main", "No queues").await;
}

/// A group is paused, moved to the end and to a time, and deleted; the page shows its lag and its lease.
#[tokio::test]
async fn a_group_is_operated() {
    let Some(visitor) = Visitor::new().await else { return };
    let browser = &visitor.browser;
    visitor.push("orders", &["1", "2", "3"]).await;
    let popped = visitor.pop("orders", 2).await;
    visitor.open("queues/orders?tab=partitions&state=leased").await;
    browser.says("[data-live=partitions]", "2 leased").await;
    browser.says("[data-live=partitions]", popped["leaseId"].as_str().expect("a lease")).await;
    browser.check().await;
    visitor.open("queues/orders?tab=groups").await;
    browser.says("[data-live=groups]", "reading").await;
    visitor.begin("Pause").await;
    browser.click("dialog[open] [data-close]").await;
    let group = || async { visitor.json("/v1/queues/orders").await["consumer_groups"][0].take() };
    visitor.begin_in("[data-live=groups]", "Pause").await;
    visitor.finish().await;
    browser.says("[data-live=groups]", "paused").await;
    assert!(group().await["paused_at"].is_string());
    visitor.begin("Seek to the end").await;
    visitor.confirm("billing").await;
    visitor.finish().await;
    assert_eq!(group().await["lag"], 0);
    browser.check().await;
    visitor.begin("Seek to a time").await;
    let field = "document.querySelector('dialog[open] [data-path=timestamp]')";
    browser
        .run(&format!(
            "{field}.value = '2026-01-01T00:00:00'; {field}.dispatchEvent(new Event('input', {{bubbles: true}}))"
        ))
        .await;
    visitor.finish().await;
    assert_eq!(group().await["lag"], 3);
    visitor.begin_in("[data-live=groups]", "Delete").await;
    visitor.confirm("billing").await;
    visitor.finish().await;
    browser.says("[data-live=groups]", "No consumer groups").await;
}

/// Dead letters: one is edited and replayed, those that a filter matches are replayed in steps after a preview, and the
/// rest is purged. The replayed message says where it comes from.
#[tokio::test]
async fn dead_letters_are_operated() {
    let Some(visitor) = Visitor::new().await else { return };
    let browser = &visitor.browser;
    let many: Vec<String> = (0..250).map(|n| format!("m{n}")).collect();
    visitor.push("orders", &many.iter().map(String::as_str).collect::<Vec<_>>()).await;
    visitor.give_up(&visitor.pop("orders", 250).await, "card declined").await;
    visitor.push("orders", &["odd"]).await;
    visitor.give_up(&visitor.pop("orders", 1).await, "out of stock").await;
    visitor.open("queues/orders?tab=dead-letters").await;
    browser.says("[data-live=dead-letters]", "out of stock").await;
    browser.check().await;
    visitor.follow("[data-live=dead-letters] tbody tr:first-child a").await;
    browser.says("h1", "Dead letter").await;
    visitor.begin("Edit and replay").await;
    visitor.fill("payload", "{\"fixed\": 1.50}").await;
    visitor.finish().await;
    browser.until("location.search.includes('dead-letters')").await;
    visitor.open("queues/orders?tab=next&group=billing").await;
    browser.says("[data-live=next]", "1.50").await;
    visitor.follow("[data-live=next] tbody a").await;
    browser.says("main", "out of stock").await;
    browser.says("main", "with another payload").await;
    browser.check().await;
    visitor.open("queues/orders?tab=dead-letters&error=DECLINED").await;
    visitor.begin("Replay these").await;
    browser.says("dialog[open] [data-preview]", "250").await;
    visitor.finish().await;
    browser.says("main", "No dead letters").await;
    visitor.give_up(&visitor.pop("orders", 3).await, "again").await;
    visitor.open("queues/orders?tab=dead-letters").await;
    visitor.begin("Purge all").await;
    browser.says("dialog[open] [data-preview]", "3").await;
    visitor.confirm("orders").await;
    visitor.finish().await;
    assert_eq!(visitor.json("/v1/dead_letters?queue=orders").await["dead_letters"], json!([]));
}

/// A message is made a dead letter, replayed and deleted from its page.
#[tokio::test]
async fn a_message_is_operated() {
    let Some(visitor) = Visitor::new().await else { return };
    let browser = &visitor.browser;
    visitor.push("orders", &["1"]).await;
    visitor.open("queues/orders").await;
    visitor.follow("[data-live=messages] tbody a").await;
    browser.says("h1", "1").await;
    visitor.begin("Make a dead letter").await;
    visitor.finish().await;
    browser.says("[data-live=message]", "moved by hand").await;
    visitor.begin("Retry now").await;
    visitor.finish().await;
    visitor.open("queues/orders").await;
    visitor.follow("[data-live=messages] tbody a").await;
    browser.says("[data-live=message]", "replayed").await;
    visitor.begin("Delete").await;
    visitor.confirm("delete").await;
    visitor.finish().await;
    browser.says("main", "No messages").await;
}

/// Every page must be usable in both themes, on a laptop and on a phone, with hostile names everywhere.
/// With `REVEILLE_TEST_PICTURES` each is also written to that folder, to be seen by a person.
#[tokio::test]
async fn every_page_of_a_queue_is_usable() {
    let Some(visitor) = Visitor::new().await else { return };
    let (browser, server) = (&visitor.browser, &visitor.server);
    let item = |id: &str| json!({"queue": HOSTILE, "partition": HOSTILE, "transactionId": id, "traceId": HOSTILE, "payload": {HOSTILE: [HOSTILE, 1, null]}});
    server.post("/api/v1/push", json!({"items": [item(HOSTILE), item("2"), item("3")]})).await;
    let name: String = HOSTILE.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let popped = visitor.pop(&name, 1).await;
    visitor.give_up(&popped, HOSTILE).await;
    visitor.pop(&name, 1).await;
    let partition = popped["messages"][0]["partitionId"].as_str().expect("an id");
    let trace = json!({"transactionId": "2", "partitionId": partition, "traceNames": [HOSTILE], "eventType": HOSTILE, "data": {HOSTILE: HOSTILE}});
    server.post("/api/v1/traces", trace).await;
    let letter = visitor.json("/v1/dead_letters").await["dead_letters"][0]["id"].clone();
    let tab = |tab: &str| format!("queues/{name}?tab={tab}");
    let pages = [
        ("list", "queues".to_owned()),
        ("messages", format!("queues/{name}?payloads=true")),
        ("next", tab("next")),
        ("partitions", tab("partitions")),
        ("groups", tab("groups")),
        ("dead-letters", tab("dead-letters")),
        ("options", tab("options")),
        ("message", format!("queues/{name}/messages/{partition}/2")),
        ("dead-letter", format!("queues/{name}/dead-letters/{letter}")),
    ];
    let folder = std::env::var_os("REVEILLE_TEST_PICTURES").map(std::path::PathBuf::from);
    for (theme, size, look) in
        [(Theme::Light, LAPTOP, "light"), (Theme::Dark, LAPTOP, "dark"), (Theme::Dark, PHONE, "phone")]
    {
        browser.theme(theme).await;
        browser.resize(size).await;
        for (title, page) in &pages {
            visitor.open(page).await;
            browser.check().await;
            assert_ne!(browser.run("return document.title").await, "broken", "{page}");
            if let Some(folder) = &folder {
                browser.picture(&folder.join(format!("queues-{title}-{look}.png"))).await;
            }
        }
    }
    visitor.open(&tab("groups")).await;
    visitor.begin("Configure").await;
    browser.check().await;
}
