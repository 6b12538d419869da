//! Investigations and domain events that the ends of steps and tasks cause.

use reveille_flow::{
    AttemptResult, ClaimRequest, EventFilter, EventPage, Failure, InvestigationFilter, Resolution, Submission,
};
use serde_json::json;
use uuid::Uuid;

use crate::fixture::{Fixture, NAMESPACE, failure, read, submission, worker};

/// A flow with a template `t`; `head` is its text before the steps, such as a lifecycle.
async fn with(head: &str, steps: &str) -> Fixture {
    let flow = Fixture::new().await;
    let text =
        format!("name: t\nnamespace_name: {NAMESPACE}\nidentity_strategy: always_unique\n{head}\nsteps: {steps}\n");
    flow.register(&text).await.expect("a template");
    flow
}

async fn reasons(flow: &Fixture, task: Uuid) -> Vec<String> {
    let filter = InvestigationFilter { task: Some(task), ..InvestigationFilter::default() };
    flow.investigations(&filter, 10).await.expect("a list").entries.into_iter().map(|entry| entry.reason).collect()
}

/// A step without attempts left causes an investigation with the state of its task; so does one whose failure must not
/// be retried.
#[tokio::test]
async fn used_up_attempts_cause_an_investigation() {
    let flow =
        Fixture::with("[{name: a, retry: {max_attempts: 2, backoff: none}}, {name: b, dependencies: [a]}]").await;
    let hopeless = flow.task().await;
    flow.fail(&flow.next().await, false).await;
    assert_eq!(reasons(&flow, hopeless).await, ["not_retryable"]);

    let task = flow.task().await;
    flow.fail(&flow.next().await, true).await;
    assert!(reasons(&flow, task).await.is_empty());
    flow.fail(&flow.next().await, true).await;
    let filter = InvestigationFilter { task: Some(task), ..InvestigationFilter::default() };
    let entry = flow.investigations(&filter, 10).await.expect("a list").entries.pop().expect("an entry");
    assert_eq!((entry.task_uuid, entry.reason.as_str(), entry.step.as_deref()), (task, "retries_exhausted", Some("a")));
    let snapshot = read(&entry.snapshot);
    assert_eq!((&snapshot["attempts"], &snapshot["error"]["message"]), (&json!(2), &json!("broken")));
    assert_eq!(snapshot["steps_by_state"], json!({"error": 1, "pending": 1}));

    let closed = flow.close_investigation(entry.id, Resolution::PermanentlyFailed, "ada", Some("no use")).await;
    let closed = closed.expect("an answer").expect("an investigation");
    assert_eq!((closed.resolution, closed.resolved_by.as_deref()), (Some(Resolution::PermanentlyFailed), Some("ada")));
    let again = flow.close_investigation(entry.id, Resolution::Cancelled, "bob", None).await.expect("an answer");
    assert_eq!(
        again.expect("an investigation").resolution,
        Some(Resolution::PermanentlyFailed),
        "what was said first stays"
    );
    let open = InvestigationFilter { open: Some(true), ..filter };
    assert!(flow.investigations(&open, 10).await.expect("a list").entries.is_empty());
    assert!(flow.close_investigation(999, Resolution::Cancelled, "bob", None).await.expect("an answer").is_none());
}

/// A task that exceeds its maximum time ends as an error, its worker loses its step, and it has an investigation.
#[tokio::test]
async fn a_task_that_takes_too_long_ends() {
    let flow = with("lifecycle: {max_duration_minutes: 0.005}", "[{name: a}, {name: b, dependencies: [a]}]").await;
    let task = flow.task().await;
    let step = flow.next().await;
    let _orchestrator = flow.orchestrate();
    reveille_pg::testing::eventually("the task ends", async || flow.state_and_open_steps(task).await.0 == "error")
        .await;
    assert_eq!(reasons(&flow, task).await, ["max_duration"]);
    assert_eq!(
        flow.say(&step, reveille_flow::AttemptResult::Complete(json!(1).into())).await,
        Err(reveille_flow::Refused::Lost)
    );
    assert_eq!(flow.states(task).await.into_values().collect::<Vec<_>>(), ["cancelled", "cancelled"]);
    assert_eq!(flow.attempts(task).await, [(1, "taken_away".to_owned())]);
    let who = || reveille_flow::Operator { name: "ada".to_owned(), reason: None };
    flow.resolve(task, who()).await.expect("the task can be resolved");
}

/// The limit of a state counts from the start of the state, not of the task; a task may be under investigation and
/// continue. The limit is for waiting for a retry. The task is claimed for longer than that, and fails then.
#[tokio::test]
async fn a_limit_of_a_state_counts_from_its_start() {
    let flow = with(
        "lifecycle: {max_waiting_for_retry_minutes: 0.01, staleness_action: alert}",
        "[{name: a, retry: {backoff: linear, backoff_base_ms: 60000}}]",
    )
    .await;
    let _orchestrator = flow.orchestrate();
    let task = flow.task().await;
    let step = flow.next().await;
    tokio::time::sleep(std::time::Duration::from_millis(900)).await;
    assert!(reasons(&flow, task).await.is_empty(), "it is not waiting");
    flow.fail(&step, true).await;
    reveille_pg::testing::eventually("an investigation", async || !reasons(&flow, task).await.is_empty()).await;
    assert_eq!(reasons(&flow, task).await, ["too_long_waiting_for_retry"]);
    assert_eq!(flow.state_and_open_steps(task).await, ("open".to_owned(), 1), "it continues");
}

/// Waits for a page of this many events. Older transactions of other tests delay events.
async fn events(flow: &Fixture, filter: &EventFilter, count: usize) -> EventPage {
    let mut page = None;
    reveille_pg::testing::eventually("the events can be read", async || {
        let read = flow.domain_events(filter, 10).await.expect("events");
        page.insert(read).events.len() == count
    })
    .await;
    page.expect("a page")
}

/// A page of investigations has at most 16 MiB of snapshots, which contain the errors of steps, and a cursor for the
/// next page.
/// Three tasks have failed: two with an error of 9 MiB, and a third with a small one.
#[tokio::test]
async fn investigations_are_bounded_in_bytes() {
    let flow = Fixture::with("[{name: a}]").await;
    let mut tasks = Vec::new();
    for bytes in [1, 9 << 20, 9 << 20] {
        tasks.push(flow.task().await);
        let error = Failure { context: Some(json!("x".repeat(bytes)).into()), ..failure(false) };
        flow.say(&flow.next().await, AttemptResult::Failed(error)).await.expect("it counts");
    }
    tasks.reverse();
    for reason in [None, Some("not_retryable".to_owned())] {
        let mut filter = InvestigationFilter { reason, ..InvestigationFilter::default() };
        let first = flow.investigations(&filter, 10).await.expect("a page");
        assert_eq!(first.entries.iter().map(|entry| entry.task_uuid).collect::<Vec<_>>(), tasks[..1]);
        filter.before = first.next;
        let second = flow.investigations(&filter, 10).await.expect("a page");
        assert_eq!(second.entries.iter().map(|entry| entry.task_uuid).collect::<Vec<_>>(), tasks[1..]);
        assert_eq!(second.next, None);
    }
}

/// The end of a step publishes its events, under the condition of its definition; a reader that continues from the last
/// cursor gets each once.
#[tokio::test]
async fn steps_publish_events_when_they_end() {
    let publishes = "publishes_events: [{name: made, condition: success}, {name: broken, condition: failure}, {name: over, condition: always}]";
    let flow = Fixture::with(&format!("[{{name: a, {publishes}}}, {{name: b, {publishes}}}]")).await;
    let task = Submission { correlation_id: Some("order 7".to_owned()), ..submission("t", json!({})) };
    flow.submit(task).await.expect("a task");
    let of = |name: &str| ClaimRequest { steps: Some(vec![name.to_owned()]), ..worker() };
    let a = flow.claim(&of("a"), 1, None).await.expect("a claim").remove(0);
    let b = flow.claim(&of("b"), 1, None).await.expect("a claim").remove(0);
    flow.complete(&a, json!({"id": 7})).await;
    let mut filter = EventFilter::default();
    let page = events(&flow, &filter, 2).await;
    let first = page.events;
    assert_eq!(first.iter().map(|event| event.name.as_str()).collect::<Vec<_>>(), ["made", "over"]);
    assert_eq!((first[0].step.as_str(), first[0].correlation_id.as_deref()), ("a", Some("order 7")));
    assert_eq!(read(first[0].payload.as_ref().expect("a payload")), json!({"id": 7}));
    flow.fail(&b, false).await;
    assert_eq!(page.next.as_deref(), first.last().map(|event| event.cursor.as_str()));
    filter.after = page.next;
    let second = events(&flow, &filter, 2).await.events;
    assert_eq!(second.iter().map(|event| event.name.as_str()).collect::<Vec<_>>(), ["broken", "over"]);
    assert!(!second[0].succeeded);
    filter.names = Some(vec!["over".to_owned()]);
    filter.after = None;
    assert_eq!(events(&flow, &filter, 2).await.events.len(), 2);
    filter.after = Some("x".to_owned());
    assert!(flow.domain_events(&filter, 10).await.is_err());
}
