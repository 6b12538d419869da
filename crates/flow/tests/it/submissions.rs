//! Submissions: duplicates and invalid tasks.

use reveille_flow::{Error, Submission};
use serde_json::json;

use crate::fixture::{Fixture, NAMESPACE, submission};

/// Each strategy: by context, by key, and none. A duplicate names the existing task.
#[tokio::test]
async fn a_duplicate_names_the_task() {
    let flow = Fixture::new().await;
    for strategy in ["strict", "caller_provided", "always_unique"] {
        let text = format!(
            "name: {strategy}\nnamespace_name: {NAMESPACE}\nidentity_strategy: {strategy}\nsteps: [{{name: a}}]\n"
        );
        flow.register(&text).await.expect("a template");
    }
    let first = flow.submit(submission("strict", json!({"a": 1, "b": 2}))).await.expect("a task").task_uuid;
    let again = flow.submit(submission("strict", json!({"b": 2, "a": 1}))).await.expect_err("the same");
    assert!(matches!(again, Error::Duplicate { task } if task == first), "{again}");
    flow.submit(submission("strict", json!({"a": 1}))).await.expect("another");
    let error = flow.submit(submission("caller_provided", json!({}))).await.expect_err("no key").to_string();
    assert!(error.starts_with("invalid parameter `idempotency_key`: "), "{error}");
    for name in ["caller_provided", "always_unique", "strict"] {
        let keyed = |context| Submission { idempotency_key: Some("k".to_owned()), ..submission(name, context) };
        let first = flow.submit(keyed(json!({"n": 1}))).await.expect("a task").task_uuid;
        let again = flow.submit(keyed(json!({"n": 2}))).await.expect_err("the same key");
        assert!(matches!(again, Error::Duplicate { task } if task == first), "{again}");
    }
    flow.submit(submission("always_unique", json!({}))).await.expect("a task");
    flow.submit(submission("always_unique", json!({}))).await.expect("another");
}

/// Concurrent submissions of the same task create one, and all others get its id.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_duplicates_are_one_task() {
    let flow = Fixture::new().await;
    flow.register(&format!("name: s\nnamespace_name: {NAMESPACE}\nsteps: [{{name: a}}]\n")).await.expect("a template");
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let flow = flow.flow.clone();
        all.spawn(async move { flow.submit(submission("s", json!({"a": 1}))).await });
    }
    let (mut made, mut same) = (Vec::new(), Vec::new());
    while let Some(submitted) = all.join_next().await {
        match submitted.expect("no panic") {
            Ok(submitted) => made.push(submitted.task_uuid),
            Err(Error::Duplicate { task }) => same.push(task),
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!((made.len(), same.len()), (1, 19));
    assert!(same.iter().all(|task| *task == made[0]));
    assert_eq!(flow.now(9).await.len(), 1);
}

/// An invalid submission is rejected with the reason, and creates no task.
#[tokio::test]
async fn invalid_input_is_rejected() {
    let flow = Fixture::new().await;
    let schema = "{type: object, required: [order], properties: {order: {type: integer}}}";
    let text = format!("name: s\nnamespace_name: {NAMESPACE}\ninput_schema: {schema}\nsteps: [{{name: a}}]\n");
    flow.register(&text).await.expect("a template");
    let long = "x".repeat(201);
    for (submission, reason) in [
        (submission("s", json!({})), "`context`: \"order\" is a required property"),
        (submission("s", json!({"order": "7"})), "`context`: /order: "),
        (submission("unknown", json!({})), "no template tests/unknown"),
        (Submission { version: "2".to_owned(), ..submission("s", json!({"order": 1})) }, "with version \"2\""),
        (
            Submission { reason: Some("a\0b".to_owned()), ..submission("s", json!({"order": 1})) },
            "`reason`: must not contain NUL",
        ),
        (
            Submission { tags: vec![long], ..submission("s", json!({"order": 1})) },
            "`tags`: must have at most 200 characters, got 201",
        ),
    ] {
        let error = flow.submit(submission).await.expect_err(reason).to_string();
        assert!(error.contains(reason), "{error} is not {reason}");
    }
    assert!(flow.now(9).await.is_empty());
    let tags = ["a", "b"].map(str::to_owned).to_vec();
    flow.submit(Submission { tags, ..submission("s", json!({"order": 1})) }).await.expect("a task");
    assert_eq!(flow.now(9).await.len(), 1);
}

/// A version never changes: the same text again is no change, and another text is rejected.
#[tokio::test]
async fn a_version_never_changes() {
    let flow = Fixture::new().await;
    let text = |step: &str| format!("name: v\nnamespace_name: {NAMESPACE}\nversion: 3\nsteps: [{{name: {step}}}]\n");
    let first = flow.register(&text("a")).await.expect("a template");
    let again = flow.register(&text("a")).await.expect("the same");
    assert_eq!((first.new, again), (true, reveille_flow::Registered { new: false, ..first }));
    let error = flow.register(&text("b")).await.expect_err("another text");
    assert!(matches!(error, Error::VersionTaken { .. }), "{error}");
    assert_eq!(flow.flow.template(NAMESPACE, "v", "3").await.expect("a template").steps[0].name, "a");
}
