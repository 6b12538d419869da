//! Orchestrations in the browser: every page, and every action. A real runtime in the test executes them.

use std::sync::Arc;

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use reveille_durable::{LongPollConfig, Options, PostgresProvider};
use serde_json::{Value, json};

use crate::browser::{Browser, LAPTOP, PHONE, Theme};
use crate::http::eventually;
use crate::pages::HOSTILE;
use crate::server::Server;

/// A runtime on the schema of a server.
async fn runtime(server: &Server) -> Arc<Runtime> {
    let options = Options::default().schema(server.db.schema().name()).long_poll(LongPollConfig::enabled());
    let provider = PostgresProvider::with_database(server.db.database().clone(), options).await.expect("a provider");
    let charge = |_: ActivityContext, input: String| async move { Ok(format!("charged {input}")) };
    let refuse = |_: ActivityContext, _: String| async move { Err::<String, _>(HOSTILE.to_owned()) };
    let activities = ActivityRegistry::builder().register("Charge", charge).register("Refuse", refuse).build();
    // An activity, a key, a child, and an event that it waits for.
    let order = |ctx: OrchestrationContext, input: String| async move {
        ctx.set_custom_status(HOSTILE);
        let charged = ctx.schedule_activity("Charge", input).await?;
        ctx.set_kv_value("charged", &charged);
        ctx.schedule_sub_orchestration("Ship", "parcel").await?;
        let paid = ctx.schedule_wait("Paid").await;
        Ok(format!("{charged}, paid {paid}"))
    };
    let ship = |ctx: OrchestrationContext, input: String| async move { ctx.schedule_activity("Charge", input).await };
    let fail = |ctx: OrchestrationContext, input: String| async move { ctx.schedule_activity("Refuse", input).await };
    let count = |ctx: OrchestrationContext, input: String| async move {
        match input.as_str() {
            "5" => Ok(input),
            _ => ctx.continue_as_new((input.parse::<u64>().unwrap_or(0) + 1).to_string()).await,
        }
    };
    let orchestrations = OrchestrationRegistry::builder()
        .register("Order", order)
        .register("Ship", ship)
        .register("Fail", fail)
        .register("Count", count)
        .build();
    let options = RuntimeOptions { orchestration_concurrency: 2, worker_concurrency: 2, ..RuntimeOptions::default() };
    Runtime::start_with_options(Arc::new(provider), activities, orchestrations, options).await
}

async fn begin(server: &Server, instance: &str, name: &str, text: &str) {
    server.post("/v1/durable/instances", json!({"instance": instance, "name": name, "text": text})).await;
}

/// An instance when its response contains a text.
async fn shows(server: &Server, instance: &str, part: &str) -> Value {
    let path = format!("/v1/durable/instances/{}", encoded(instance));
    eventually(server.address, &path, |answer| answer.body.contains(part)).await.json()
}

/// A segment of a path.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Opens the dialog of an action.
async fn open(browser: &Browser, label: &str) {
    browser.appears("html[data-script]").await;
    let button = json!(format!("main .action:has(> dialog[aria-label={}]) > button", json!(label)));
    browser.until(&format!("document.querySelector({button})")).await;
    browser.run(&format!("document.querySelector({button}).click()")).await;
    browser.appears("dialog[open]").await;
}

async fn fill(browser: &Browser, path: &str, text: &str) {
    browser.fill(&format!("dialog[open] [data-path={}]", json!(path)), text).await;
}

/// Sends the action of the open dialog.
async fn send(browser: &Browser) {
    browser.until("!document.querySelector('dialog[open] [type=submit]').disabled").await;
    browser.click("dialog[open] [type=submit]").await;
}

/// Every page must be usable in both themes and at both widths, and show what others have written as text.
/// Instances that wait, have failed, and have continued as new, at every tab.
#[tokio::test(flavor = "multi_thread")]
async fn every_page_of_instances_is_usable() {
    let Some(browser) = Browser::start().await else { return };
    let server = Server::start(&[]).await;
    let runtime = runtime(&server).await;
    begin(&server, HOSTILE, "Order", HOSTILE).await;
    begin(&server, "refused", "Fail", "7").await;
    begin(&server, "loop", "Count", "0").await;
    shows(&server, HOSTILE, "waits for the event").await;
    shows(&server, "refused", "\"Failed\"").await;
    shows(&server, "loop", "\"Completed\"").await;
    let hostile = encoded(HOSTILE);
    let mut pages = vec![
        "durable".to_owned(),
        "durable?name=Order&status=Running".to_owned(),
        "durable?prefix=none".to_owned(),
        "durable/refused".to_owned(),
        "durable/loop?tab=executions".to_owned(),
        "durable/loop?execution=2".to_owned(),
        format!("durable/{hostile}"),
        format!("durable/{hostile}?view=raw"),
    ];
    pages.extend(["waiting", "children", "executions", "keys"].map(|tab| format!("durable/{hostile}?tab={tab}")));
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
    runtime.shutdown(Some(0)).await;
}

/// An instance that the form starts must run, wait for its event, and end with it; the open page follows.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_started_and_gets_its_event() {
    let Some(browser) = Browser::start().await else { return };
    let server = Server::start(&[]).await;
    let runtime = runtime(&server).await;
    browser.open(&server.page("durable")).await;
    open(&browser, "Start").await;
    fill(&browser, "instance", "order-1").await;
    fill(&browser, "name", "Order").await;
    fill(&browser, "input", "12345678901234567890").await;
    send(&browser).await;
    browser.says("[data-live=list]", "order-1").await;
    shows(&server, "order-1", "waits for the event").await;

    browser.open(&server.page("durable/order-1")).await;
    browser.says("[data-live=state]", "It waits for the event \"Paid\".").await;
    open(&browser, "Raise Paid").await;
    fill(&browser, "text", "in cash").await;
    send(&browser).await;
    browser.says("[data-live=state]", "charged 12345678901234567890, paid in cash").await;
    browser.says("[data-live=history]", "OrchestrationCompleted").await;
    browser.open(&server.page("durable/order-1?tab=children")).await;
    browser.appears("[data-live=children] .tree ul a").await;
    browser.open(&server.page("durable/order-1?tab=keys")).await;
    browser.says("[data-live=keys]", "charged").await;
    runtime.shutdown(Some(0)).await;
}

/// A cancelled instance must fail with the reason, and a deleted one must be gone, only after the confirmation.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_cancelled_and_deleted() {
    let Some(browser) = Browser::start().await else { return };
    let server = Server::start(&[]).await;
    let runtime = runtime(&server).await;
    begin(&server, "order-1", "Order", "7").await;
    shows(&server, "order-1", "waits for the event").await;
    browser.open(&server.page("durable/order-1")).await;
    open(&browser, "Cancel").await;
    fill(&browser, "reason", "ordered twice").await;
    send(&browser).await;
    browser.says("[data-live=state]", "ordered twice").await;

    browser.open(&server.page("durable/order-1")).await;
    open(&browser, "Delete").await;
    browser.until("document.querySelector('dialog[open] [data-preview]').innerText.includes('affect')").await;
    browser.until("document.querySelector('dialog[open] [type=submit]').disabled").await;
    browser.fill("dialog[open] [data-confirm]", "delete").await;
    send(&browser).await;
    browser.until("location.pathname === '/console/durable'").await;
    assert_eq!(server.get("/v1/durable/instances/order-1").await.status, 404);
    runtime.shutdown(Some(0)).await;
}

/// Ended instances and old executions must be deleted in bulk, and only what the preview counts.
#[tokio::test(flavor = "multi_thread")]
async fn ended_instances_and_old_executions_are_pruned() {
    let Some(browser) = Browser::start().await else { return };
    let server = Server::start(&[]).await;
    let runtime = runtime(&server).await;
    begin(&server, "waits", "Order", "7").await;
    begin(&server, "refused", "Fail", "7").await;
    begin(&server, "loop", "Count", "0").await;
    shows(&server, "waits", "waits for the event").await;
    shows(&server, "refused", "\"Failed\"").await;
    shows(&server, "loop", "\"Completed\"").await;

    browser.open(&server.page("durable?name=Count")).await;
    open(&browser, "Delete old executions").await;
    browser.says("dialog[open] [data-preview]", "affect").await;
    browser.fill("dialog[open] [data-confirm]", "delete").await;
    send(&browser).await;
    browser.until("!document.querySelector('dialog[open]')").await;
    let left = server.get("/v1/durable/instances/loop/executions").await.json();
    assert_eq!(left["executions"].as_array().map(Vec::len), Some(3), "{left}");

    browser.open(&server.page("durable?status=Failed")).await;
    open(&browser, "Delete ended").await;
    browser.says("dialog[open] [data-preview]", "It would affect 1").await;
    browser.fill("dialog[open] [data-confirm]", "delete").await;
    send(&browser).await;
    browser.until("!document.querySelector('dialog[open]')").await;
    assert_eq!(server.get("/v1/durable/instances/refused").await.status, 404);
    for kept in ["waits", "loop"] {
        assert_eq!(server.get(&format!("/v1/durable/instances/{kept}")).await.status, 200, "{kept}");
    }
    runtime.shutdown(Some(0)).await;
}
