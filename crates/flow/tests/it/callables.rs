//! Claiming steps by callable.

use reveille_flow::{ClaimRequest, Error};
use serde_json::json;
use tokio::time::Instant;

use crate::fixture::{Elsewhere, Fixture, NAMESPACE, PATIENCE, submission, worker};

fn pay() -> Vec<String> {
    vec!["pay".to_owned()]
}

/// A claim by callable gets all steps of that callable, whatever their names, and no others.
#[tokio::test]
async fn steps_are_claimed_by_callable() {
    let steps = "[{name: a, handler: {callable: pay}}, {name: b, handler: {callable: pay}}, {name: c, handler: {callable: ship}}, {name: pay, handler: {callable: other}}]";
    let flow = Fixture::with(steps).await;
    flow.task().await;
    let claimed = flow.claim_callables(&worker(), &pay(), 10, None).await.expect("a claim");
    let mut names: Vec<&str> = claimed.iter().map(|step| step.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "b"]);
    assert!(claimed.iter().all(|step| step.callable == "pay"));
    let both = ClaimRequest { steps: Some(pay()), ..worker() };
    for (request, callables) in [(both, pay()), (worker(), vec![]), (worker(), vec!["\0".to_owned()])] {
        let error = flow.claim_callables(&request, &callables, 1, None).await.expect_err("refused");
        assert!(matches!(error, Error::Invalid { what: "callables", .. }), "{error}");
    }
}

/// A claim that waits for a callable is woken by the first task of a template that another process registers meanwhile.
/// No poll can find it: the fallback comes every five minutes.
#[tokio::test]
async fn a_template_that_is_registered_later_wakes_claims() {
    let flow = Fixture::new().await;
    let elsewhere = Elsewhere::start(&flow.db).await;
    let waiting = tokio::spawn({
        let flow = flow.flow.clone();
        async move { flow.claim_callables(&worker(), &pay(), 1, Some(Instant::now() + PATIENCE)).await }
    });
    let text = format!("name: t\nnamespace_name: {NAMESPACE}\nsteps: [{{name: a, handler: {{callable: pay}}}}]\n");
    elsewhere.flow.register(&text).await.expect("a template");
    elsewhere.flow.submit(submission("t", json!({}))).await.expect("a task");
    let claimed = waiting.await.expect("no panic").expect("a claim");
    assert_eq!(claimed[0].name, "a");
}

/// A step name with two callables is an error that names both, not an empty result.
#[tokio::test]
async fn a_name_of_two_callables_is_an_error() {
    let flow = Fixture::with("[{name: a, handler: {callable: pay}}]").await;
    flow.template("u", "[{name: a, handler: {callable: ship}}]").await;
    flow.task().await;
    let error = flow.claim_callables(&worker(), &pay(), 1, None).await.expect_err("refused").to_string();
    assert!(error.contains(r#"step "a" also has callable "ship", in template u 1.0.0"#), "{error}");
    let both = ["pay".to_owned(), "ship".to_owned()];
    assert_eq!(flow.claim_callables(&worker(), &both, 1, None).await.expect("a claim").len(), 1);
}
