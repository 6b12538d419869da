//! Steps for which a worker of the SDK has no handler.

use reveille_flow::Step;
use serde_json::Value;

use crate::fixture::{Fixture, NAMESPACE, submission};
use crate::workers::stopped;

/// A step whose callable a worker does not have is released uncharged, and waits for a worker that has it. The first
/// worker tries it again after growing pauses. Measures the releases: a second, then two, lie between.
#[tokio::test]
async fn a_step_without_a_handler_waits_for_another_worker() {
    let flow = Fixture::with("[{name: a, handler: {callable: mail.send}}, {name: b}]").await;
    let task = flow.task().await;
    let first = flow.worker("first").namespace(NAMESPACE).handle("b", async |_: Step<Value>| Ok(()));
    let first = first.start().expect("a worker");
    reveille_pg::testing::eventually("it has done one and given the other back", async || {
        let counts = first.counts();
        counts.completed == 1 && counts.given_back >= 3
    })
    .await;
    let sql = flow.db.schema().sql(
        "select extract(epoch from a.ended_at - lag(a.ended_at) over (order by a.ended_at))::float8
         from {schema}.attempt a where a.task_id = $1 and a.outcome = 'given_back' order by a.ended_at offset 1 limit 2",
    );
    let pauses: Vec<f64> =
        sqlx::query_scalar(&sql).bind(task).fetch_all(flow.db.database().pool()).await.expect("pauses");
    // A pause begins when the step is claimed, and is measured from its release, which on a busy machine is later.
    assert!(pauses[0] > 0.5 && pauses[1] > 1.5, "{pauses:?}");
    let second = flow.worker("second").namespace(NAMESPACE).handle("mail.send", async |_: Step<Value>| Ok(()));
    let second = second.start().expect("a worker");
    flow.ends(task, "complete").await;
    stopped(first).await;
    assert_eq!(stopped(second).await.completed, 1);
    let done: Vec<_> = flow.attempts(task).await.into_iter().filter(|(_, outcome)| outcome == "complete").collect();
    assert_eq!(done, [(1, "complete".to_owned()), (1, "complete".to_owned())], "no attempt was charged");
}

/// Two templates have steps with one name and different callables: two workers with one callable each complete both.
#[tokio::test]
async fn one_name_for_two_callables_starves_no_worker() {
    let flow = Fixture::new().await;
    let mut tasks = Vec::new();
    for template in ["x", "y"] {
        flow.template(template, &format!("[{{name: a, handler: {{callable: {template}}}}}]")).await;
        for _ in 0..2 {
            tasks.push(flow.submit(submission(template, Value::Null)).await.expect("a task").task_uuid);
        }
    }
    let worker =
        |callable: &str| flow.worker(callable).namespace(NAMESPACE).handle(callable, async |_: Step<Value>| Ok(()));
    let workers = ["x", "y"].map(|callable| worker(callable).start().expect("a worker"));
    for task in tasks {
        flow.ends(task, "complete").await;
    }
    for worker in workers {
        assert_eq!(stopped(worker).await.completed, 2);
    }
}

/// A worker that names its steps never claims others.
#[tokio::test]
async fn a_worker_that_names_its_steps_claims_no_others() {
    let flow = Fixture::with("[{name: a}, {name: b}]").await;
    let worker = |step: &'static str| {
        let worker = flow.worker(step).namespace(NAMESPACE).steps([step]);
        worker.handle(step, async |_: Step<Value>| Ok(())).start().expect("a worker")
    };
    let (a, b) = (worker("a"), worker("b"));
    for _ in 0..5 {
        let task = flow.task().await;
        flow.ends(task, "complete").await;
    }
    for worker in [a, b] {
        let counts = stopped(worker).await;
        assert_eq!((counts.claimed, counts.completed, counts.given_back), (5, 5, 0));
    }
}
