//! Settings of namespaces, and the notifications about them.

use reveille_flow::events::{EventDrivenOrchestrator, EventRouter, RoutingRule, TaskReadyEvent, outside_channel};
use reveille_flow::{Error, NamespaceChange, NamespaceSettings, OrchestrationConfig, Submission};
use serde_json::{Value, json};
use sqlx::postgres::PgListener;
use tokio::time::timeout;

use crate::fixture::{Fixture, NAMESPACE, PATIENCE};

/// A namespace that is created with `announces` is announced then, with its description, and not again when it is
/// changed.
#[tokio::test]
async fn a_namespace_that_announces_is_announced_when_it_is_made() {
    let flow = Fixture::new().await;
    let channel = outside_channel(flow.db.schema().name(), "namespace_created", None);
    let mut listener = PgListener::connect_with(flow.db.database().pool()).await.expect("a listener");
    listener.listen(&channel).await.expect("listening");
    let change = |description: &str| NamespaceChange {
        description: Some(description.to_owned()),
        announces: Some(true),
        ..NamespaceChange::default()
    };
    flow.put_namespace("quiet", &NamespaceChange::default()).await.expect("made");
    flow.put_namespace("loud", &change("orders")).await.expect("made");
    flow.put_namespace("loud", &change("all orders")).await.expect("changed");
    flow.put_namespace("last", &change("the end")).await.expect("made");
    let mut announced = Vec::new();
    for _ in 0..2 {
        let one = timeout(PATIENCE, listener.recv()).await.expect("in time").expect("a notification");
        let payload: Value = serde_json::from_str(one.payload()).expect("JSON");
        announced.push((payload["namespace_name"].clone(), payload["description"].clone()));
    }
    assert_eq!(announced, [(json!("loud"), json!("orders")), (json!("last"), json!("the end"))]);
}

/// Namespace templates are listed, changed and deleted; a namespace cannot start with an unknown one.
#[tokio::test]
async fn namespace_templates_are_listed_and_deleted() {
    let flow = Fixture::new().await;
    let short = NamespaceSettings { retention_seconds: Some(60), ..NamespaceSettings::default() };
    flow.put_namespace_template("short", &short).await.expect("kept");
    let all = flow.namespace_templates().await.expect("a list");
    assert_eq!(all.iter().map(|one| (one.name.as_str(), &one.settings)).collect::<Vec<_>>(), [("short", &short)]);
    let begin = NamespaceChange { template: Some("short".to_owned()), ..NamespaceChange::default() };
    assert_eq!(flow.put_namespace("n", &begin).await.expect("made").settings, short);
    assert!(flow.delete_namespace_template("short").await.expect("an answer"));
    assert!(!flow.delete_namespace_template("short").await.expect("an answer"), "it is gone");
    let error = flow.put_namespace("m", &begin).await.expect_err("refused");
    assert!(matches!(error, Error::Invalid { what: "template", .. }), "{error}");
    assert_eq!(flow.namespaces().await.expect("a list").len(), 1, "nothing was created");
}

/// The state of an orchestrator can be read: its health by check, its rules, its deduplication window.
#[tokio::test]
async fn an_orchestrator_can_be_inspected() {
    let flow = Fixture::with("[{name: a}]").await;
    assert!(flow.orchestrations().is_empty());
    let ignore = |_: TaskReadyEvent| async { Ok(()) };
    let router = EventRouter::new(ignore).rule(RoutingRule::new("shop*", Some(5), ignore));
    let config = OrchestrationConfig { router: Some(router), ..OrchestrationConfig::default() };
    let orchestrator = EventDrivenOrchestrator::new(&flow, config);
    orchestrator.start();
    reveille_pg::testing::eventually("it has a coordinator", async || {
        flow.orchestrations().first().is_some_and(|one| one.coordinators == [NAMESPACE])
    })
    .await;
    let seen = serde_json::to_value(flow.orchestrations()).expect("JSON");
    let checks: Vec<&Value> =
        seen[0]["health"]["checks"].as_array().expect("checks").iter().map(|c| &c["name"]).collect();
    assert_eq!(checks, ["listeners_connected", "coordinators_healthy", "fallback_poller", "notification_lag"]);
    assert_eq!(seen[0]["routing_rules"], json!([{"namespaces": "shop*", "priority_threshold": 5}]));
    assert_eq!(seen[0]["deduplication_window_ms"], 100);
    orchestrator.shutdown().await;
    assert!(flow.orchestrations().is_empty());
}

/// A task without a version uses the newest version, by number and not by the order of registration.
#[tokio::test]
async fn a_task_without_a_version_gets_the_newest() {
    let flow = Fixture::new().await;
    for version in ["1.10.0", "1.9.0", "2.0.0-rc.1"] {
        let text = format!(
            "name: t\nnamespace_name: {NAMESPACE}\nversion: {version}\nidentity_strategy: always_unique\nsteps: [{{name: a}}]\n"
        );
        flow.register(&text).await.expect("a template");
    }
    let task = flow.submit(Submission::new(NAMESPACE, "t", "", json!({}))).await.expect("a task").task_uuid;
    assert_eq!(flow.flow.task(task).await.expect("an answer").expect("a task").summary.version, "2.0.0-rc.1");
    let missing = flow.submit(Submission::new(NAMESPACE, "u", "", json!({}))).await.expect_err("no template");
    assert!(matches!(missing, Error::NoTemplate { .. }), "{missing}");
}
