//! The console's pages of queues, as HTML. What they do in a browser is tested in `tests/console`.

use std::collections::BTreeSet;

use serde_json::json;

use super::fixture::Server;
use crate::described::Document;
use crate::http::{get, send};

/// A name that would be a script, end an attribute, or turn the text around it.
const EVIL: &str = "<script>alert(1)</script>\"' onerror=\u{202e}x/&amp;?#";
/// The most pages that are visited.
const PAGES_MAX: usize = 200;

/// The values of an attribute.
fn attributes(page: &str, name: &str) -> Vec<String> {
    let start = format!(" {name}=\"");
    let values = page.split(&start).skip(1).filter_map(|rest| rest.split('"').next());
    let plain =
        |text: &str| text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
    values.map(plain).collect()
}

/// What a visitor reads: without tags and attributes, and without dialogs, whose commands are exact.
fn text(page: &str) -> String {
    let without_dialogs = page.split("<dialog").map(|part| part.split_once("</dialog>").map_or(part, |(_, rest)| rest));
    let page: String = without_dialogs.collect();
    page.split('<').filter_map(|tag| tag.split_once('>')).map(|(_, text)| text).collect()
}

/// A queue of which every name, id, payload, error and trace is hostile, with a leased and a dead message.
async fn hostile() -> Server {
    let server = Server::start().await;
    let item = |transaction: &str| json!({"queue": EVIL, "partition": EVIL, "transactionId": transaction, "traceId": EVIL, "payload": {EVIL: EVIL}});
    let body = json!({"items": [item(EVIL), item("2"), item("3")]});
    assert_eq!(server.post("push", &body).await.status, 201);
    let encode = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let source = format!("queue/{}?consumerGroup={}&batch=1", encode(EVIL), encode(EVIL));
    let popped = server.pop(&source).await;
    let message = &popped["messages"][0];
    let ack = json!({
        "transactionId": EVIL, "partitionId": message["partitionId"], "leaseId": message["leaseId"],
        "consumerGroup": EVIL, "status": "dlq", "error": EVIL,
    });
    assert_eq!(server.post("ack", &ack).await.status, 200);
    server.pop(&source).await;
    for transaction in [EVIL, "2"] {
        let trace = json!({
            "transactionId": transaction, "partitionId": message["partitionId"], "consumerGroup": EVIL,
            "traceNames": [EVIL], "eventType": EVIL, "data": {EVIL: EVIL}, "workerId": EVIL,
        });
        assert_eq!(server.post("traces", &trace).await.status, 201);
    }
    server
}

/// Every page of the section must show hostile names as text: no markup, no character that turns the text around, no
/// inline style or handler. And every action on them must be a route of the API.
/// All links are followed, from the list on; the pages must include each tab, a message and a dead letter.
#[tokio::test]
async fn hostile_names_stay_text_on_every_page() {
    let server = hostile().await;
    let document = Document::of(server.address).await;
    let (mut waiting, mut seen) = (vec!["queues".to_owned()], BTreeSet::new());
    let (mut tabs, mut actions) = (BTreeSet::new(), BTreeSet::new());
    while let Some(at) = waiting.pop() {
        if seen.len() == PAGES_MAX || !seen.insert(at.clone()) {
            continue;
        }
        let answer = get(server.address, &format!("/console/{at}")).await;
        assert_eq!(answer.status, 200, "{at}: {answer:?}");
        let page = &answer.body;
        assert!(!page.contains("<script>") && !text(page).contains('\u{202e}'), "{at}: {page}");
        assert!(!page.contains(" style=") && !page.contains("\" onerror="), "{at}: {page}");
        tabs.extend(attributes(page, "href").iter().filter_map(|href| href.split("tab=").nth(1).map(str::to_owned)));
        for (method, route) in attributes(page, "data-method").iter().zip(attributes(page, "data-route")) {
            let path = route.split('?').next().unwrap_or_default();
            let operation = &document.route(path)[method.to_lowercase()];
            assert!(operation.is_object(), "{at}: {method} {route} is no route");
            actions.insert(format!("{method} {}", operation["operationId"]));
        }
        waiting.extend(attributes(page, "href").into_iter().filter(|href| href.starts_with("queues")));
    }
    for part in
        ["/messages/", "/dead-letters/", "tab=next", "tab=partitions", "tab=groups", "tab=dead-letters", "tab=options"]
    {
        assert!(seen.iter().any(|at| at.contains(part)), "no page {part}: {seen:?}");
    }
    assert!(actions.len() >= 12, "{actions:?}");
}

/// A filter, an order and a page of a list are parameters of its address; what the API rejects is an error page with its
/// reason.
#[tokio::test]
async fn lists_are_filtered_by_the_address() {
    let server = Server::start().await;
    for queue in ["shop.orders", "shop.mail", "log"] {
        server.push(queue, "p", &["1"]).await;
    }
    let many: Vec<String> = (0..60).map(|n| format!("m{n}")).collect();
    server.push("log", "p", &many.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let page = async |at: &str| get(server.address, &format!("/console/{at}")).await;
    let list = page("queues?search=SHOP&sort=depth").await.body;
    assert!(list.contains("shop.orders") && list.contains("shop.mail") && !list.contains(">log<"), "{list}");
    let first = page("queues/log").await.body;
    let next = attributes(&first, "href").into_iter().find(|href| href.contains("after=")).expect("a next page");
    assert!(first.contains(">m59<") && !first.contains(">m0<"), "{first}");
    let second = page(&next).await.body;
    assert!(second.contains(">m0<") && !second.contains(">m59<"), "{second}");
    assert!(page("queues/log?payloads=true").await.body.contains("&quot;m59&quot;"));
    for (at, status, reason) in [
        ("queues/none", 404, "there is no queue &quot;none&quot;"),
        ("queues/log?status=dead", 400, "`status`: must be one of"),
        ("queues/log?from=soon", 400, "`from`"),
        ("queues/log/dead-letters/7", 404, "there is no dead letter 7"),
    ] {
        let answer = page(at).await;
        assert_eq!(answer.status, status, "{at}");
        assert!(answer.body.contains(reason), "{at}: {}", answer.body);
    }
    let answer = send(server.address, "POST", "/console/queues/log", &["content-type: application/json"], b"{}").await;
    assert_eq!(answer.status, 405, "the console has no route that changes anything");
}
