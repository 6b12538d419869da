//! Namespaces: created before their first use, and changed during use.

use std::time::Duration;

use reveille_flow::{Error, Mode, NamespaceChange, NamespaceSettings, Provider};
use serde_json::json;
use tokio::time::Instant;

use crate::fixture::{Elsewhere, Fixture, NAMESPACE, PATIENCE, worker};

/// A namespace starts with the settings of its template, or of the default one, and keeps settings that are not
/// changed.
#[tokio::test]
async fn a_namespace_starts_with_its_template() {
    let flow = Fixture::new().await;
    let quiet = NamespaceSettings { mode: Mode::Polling, poll_ms: 50, ..NamespaceSettings::default() };
    flow.put_namespace_template("quiet", &quiet).await.expect("kept");
    let named =
        NamespaceChange { template: Some("quiet".to_owned()), announces: Some(true), ..NamespaceChange::default() };
    let made = flow.put_namespace("a", &named).await.expect("made");
    assert_eq!(made.settings, NamespaceSettings { announces: true, ..quiet.clone() });
    let changed = NamespaceChange { provider: Some(Provider::Pgmq), ..NamespaceChange::default() };
    let changed = flow.put_namespace("a", &changed).await.expect("changed").settings;
    assert_eq!(changed, NamespaceSettings { announces: true, provider: Provider::Pgmq, ..quiet.clone() });
    flow.put_namespace_template("default", &quiet).await.expect("kept");
    flow.template("t", "[{name: a}]").await;
    let all = flow.namespaces().await.expect("a list");
    assert_eq!(all.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["a", NAMESPACE]);
    assert_eq!(all[1].settings, quiet);
}

/// An invalid setting is rejected with its name.
#[tokio::test]
async fn invalid_input_is_rejected() {
    let flow = Fixture::new().await;
    let change = |poll_ms| NamespaceChange { poll_ms, ..NamespaceChange::default() };
    for (name, poll_ms, wrong) in [("", None, "namespace"), ("a\0b", None, "namespace"), ("a", Some(1), "poll_ms")] {
        let error = flow.put_namespace(name, &change(poll_ms)).await.expect_err("refused");
        assert!(matches!(error, Error::Invalid { what, .. } if what == wrong), "{error}");
    }
    assert!(flow.namespaces().await.expect("a list").is_empty());
    let word = serde_json::to_value(Provider::Rabbitmq).expect("JSON");
    assert_eq!(word, json!("rabbitmq"));
}

/// The mode of a namespace can be changed while workers wait, also by another process, and applies to them at once.
/// A claim waits; in shadow mode a task does not end its wait; in polling mode the step comes.
#[tokio::test]
async fn a_changed_mode_applies_at_once() {
    let flow = Fixture::with("[{name: a}]").await;
    let elsewhere = Elsewhere::start(&flow.db).await;
    let change = |mode| NamespaceChange { mode: Some(mode), poll_ms: Some(20), ..NamespaceChange::default() };
    let waiting = flow.waiting(&["a"]).await;
    flow.put_namespace(NAMESPACE, &change(Mode::Shadow)).await.expect("changed");
    flow.task().await;
    assert!(
        flow.claim(&worker(), 1, Some(Instant::now() + Duration::from_millis(300))).await.expect("a claim").is_empty()
    );
    assert!(!waiting.is_finished());
    elsewhere.flow.put_namespace(NAMESPACE, &change(Mode::Polling)).await.expect("changed");
    assert_eq!(tokio::time::timeout(PATIENCE, waiting).await.expect("in time").expect("no panic").name, "a");
}
