//! Task graphs in the console: lists, one task, its steps, templates, schedules, namespaces, workers, and their actions.

use serde_json::{Value, json};

use crate::browser::{Browser, LAPTOP, PHONE, Theme};
use crate::pages::HOSTILE;
use crate::server::Server;

/// A template with a diamond and a batch, in the namespace `shop`.
fn order() -> Value {
    json!({
        "name": "order", "namespace_name": "shop", "identity_strategy": "always_unique",
        "description": HOSTILE,
        "input_schema": {"type": "object", "required": ["order_id"], "properties": {
            "order_id": {"type": "integer"}, "kind": {"enum": ["gift", "sale"]}, "express": {"type": "boolean"}}},
        "steps": [
            {"name": "charge", "retry": {"max_attempts": 1}},
            {"name": "reserve"},
            {"name": "pack", "dependencies": ["charge", "reserve"]},
            {"name": "send", "dependencies": ["pack"]},
        ],
    })
}

/// A server with a failed task; its id.
async fn shop() -> (Server, String) {
    let server = Server::start(&[]).await;
    server.post("/v1/templates", order()).await;
    let context = json!({"order_id": 7, "note": HOSTILE});
    let task = json!({"namespace": "shop", "name": "order", "context": context, "tags": [HOSTILE], "reason": HOSTILE});
    let task = server.post("/v1/tasks", task).await.json();
    let claim = json!({"worker": HOSTILE, "namespaces": ["shop"], "steps": ["charge"], "wait_ms": 0});
    let claimed = server.post("/v1/workers/claim", claim).await.json();
    let error = json!({"message": HOSTILE, "type": HOSTILE});
    let failed = json!({"steps": [{"token": claimed["steps"][0]["token"], "error": error}]});
    server.post("/v1/workers/fail", failed).await;
    (server, task["task_uuid"].as_str().expect("an id").to_owned())
}

/// Every page of the section must be usable in both themes and at both widths, and show what others have written as
/// text.
#[tokio::test]
async fn every_page_of_tasks_is_usable() {
    let Some(browser) = Browser::start().await else { return };
    let (server, task) = shop().await;
    let schedule = json!({"namespace": "shop", "name": HOSTILE, "template": "order", "version": "1.0.0",
        "context": {"order_id": 1}, "cron": "0 9 * * 1-5", "time_zone": "Europe/Berlin"});
    put(&server, "/v1/schedules", schedule).await;
    put(&server, "/v1/limits", json!({"namespace": "shop", "step": HOSTILE, "max_in_progress": 1})).await;
    let schedule = format!("tasks/schedules/shop/{}", encoded(HOSTILE));
    let pages = [
        "tasks".to_owned(),
        "tasks?namespace=shop&name=order".to_owned(),
        "tasks/templates".to_owned(),
        "tasks/templates/shop/order/1.0.0".to_owned(),
        "tasks/submit/shop/order/1.0.0".to_owned(),
        "tasks/schedules".to_owned(),
        schedule,
        "tasks/namespaces".to_owned(),
        "tasks/namespaces/shop".to_owned(),
        "tasks/workers".to_owned(),
        format!("tasks/{task}"),
        format!("tasks/{task}?tab=time"),
        format!("tasks/{task}?tab=context"),
        format!("tasks/{task}?tab=history"),
        format!("tasks/{task}/steps/charge"),
    ];
    for (theme, size) in [(Theme::Light, LAPTOP), (Theme::Dark, LAPTOP), (Theme::Light, PHONE), (Theme::Dark, PHONE)] {
        browser.theme(theme).await;
        browser.resize(size).await;
        for page in &pages {
            browser.open(&server.page(page)).await;
            browser.says("[data-pulse]", "live").await;
            browser.check().await;
            assert_ne!(browser.run("return document.title").await, "broken", "{page}");
        }
    }
}

/// A task says in a sentence why each step does not run, is drawn with all its steps, and continues after a retry.
#[tokio::test]
async fn a_failed_step_is_explained_and_retried() {
    let Some(browser) = Browser::start().await else { return };
    let (server, task) = shop().await;
    browser.open(&server.page(&format!("tasks/{task}"))).await;
    assert_eq!(browser.run("return document.querySelectorAll('.graph .node').length").await, 4);
    browser.says("[data-live=graph]", "It failed permanently, after 1 of 1 attempts.").await;
    browser.click(".graph a[href$='steps/charge']").await;
    browser.says("[data-live=step]", "It failed permanently").await;
    act(&browser, "Retry").await;
    browser.until("/Ready[.,] /.test(document.querySelector('[data-live=step]').innerText)").await;
    let state = server.get(&format!("/v1/tasks/{task}/workflow_steps/charge")).await.json();
    assert_eq!(state["state"], "enqueued");
}

/// The form of a template must submit what its schema allows, with numbers and flags.
#[tokio::test]
async fn a_task_is_submitted_by_a_form() {
    let Some(browser) = Browser::start().await else { return };
    let server = Server::start(&[]).await;
    server.post("/v1/templates", order()).await;
    browser.open(&server.page("tasks/submit/shop/order/1.0.0")).await;
    browser.click("[data-action] [data-open]").await;
    browser.fill("dialog[open] [data-path='context.order_id']", "12345678901234567").await;
    browser.click("dialog[open] [type=submit]").await;
    browser.until("location.search.includes('name=order')").await;
    browser.says("[data-live=tasks]", "ready").await;
    let tasks = server.get("/v1/tasks").await.json();
    let task = tasks["tasks"][0]["task_uuid"].as_str().expect("an id").to_owned();
    let context = server.get(&format!("/v1/tasks/{task}")).await.json()["context"].clone();
    assert_eq!(context, json!({"order_id": 12345678901234567_u64, "express": false}));
}

/// A fork, a pause of a schedule and a bulk operation must do what they say.
#[tokio::test]
async fn tasks_are_forked_paused_and_cancelled_in_bulk() {
    let Some(browser) = Browser::start().await else { return };
    let (server, task) = shop().await;
    browser.open(&server.page(&format!("tasks/{task}/steps/charge"))).await;
    act(&browser, "Fork from here").await;
    let two = async || server.get("/v1/tasks").await.json()["tasks"].as_array().map(Vec::len);
    assert_eq!(two().await, Some(2));

    let schedule = json!({"namespace": "shop", "name": "daily", "template": "order", "version": "1.0.0", "cron": "@daily",
            "context": {"order_id": 1}});
    put(&server, "/v1/schedules", schedule).await;
    browser.open(&server.page("tasks/schedules/shop/daily")).await;
    browser.says("[data-live=schedule]", "at 00:00 (UTC)").await;
    act(&browser, "Pause").await;
    browser.says("[data-live=schedule]", "paused").await;

    browser.open(&server.page("tasks?namespace=shop&name=order")).await;
    open(&browser, "Cancel").await;
    browser.says("dialog[open] [data-preview]", "It would affect 1").await;
    browser.fill("dialog[open] [data-confirm]", "order").await;
    browser.click("dialog[open] [type=submit]").await;
    browser.says("[data-live=tasks]", "cancelled").await;
}

/// Sends a PUT with a JSON body, which must succeed.
async fn put(server: &Server, path: &str, body: Value) {
    let headers = ["content-type: application/json"];
    let answer = crate::http::send(server.address, "PUT", path, &headers, body.to_string().as_bytes()).await;
    assert!(answer.status < 300, "{path}: {answer:?}");
}

/// Opens the dialog of an action.
async fn open(browser: &Browser, label: &str) {
    browser.appears("[data-action] [data-open]").await;
    let script = format!(
        "[...document.querySelectorAll('[data-open]')].find((it) => it.innerText === {}).click()",
        json!(label)
    );
    browser.run(&script).await;
    browser.appears("dialog[open]").await;
}

/// Opens the dialog of an action, sends it, and waits until it is done.
async fn act(browser: &Browser, label: &str) {
    open(browser, label).await;
    browser.click("dialog[open] [type=submit]").await;
    browser.says("[data-toasts]", "done").await;
}

/// A segment of a path.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
