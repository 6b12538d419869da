//! Values of clients are stored unchanged, and tokens are not trusted.

use reveille_flow::{AttemptResult, Error, Json, Refused, StepReport, StepState, Token};
use serde_json::json;

use crate::fixture::{Fixture, NAMESPACE, failure, submission};

/// A number beyond 64 bits, and the next one.
const LARGE: &str = "100000000000000000001";
const NEXT: &str = "100000000000000000002";

fn exact(text: &str) -> Json {
    Json::parse(text.to_owned()).expect("JSON")
}

/// Numbers must be returned with all their digits wherever a value can be given: contexts, results, checkpoints,
/// errors, parts, schedules. Each is sent with a number beyond 64 bits, and read as text.
#[tokio::test]
async fn numbers_keep_all_digits() {
    let flow = Fixture::with(
        "[{name: split, type: batchable, batch_config: {worker_template: part}},
          {name: part, type: batch_worker, dependencies: [split], retry: {backoff: none}},
          {name: end, type: deferred_convergence, dependencies: [part]}]",
    )
    .await;
    let context = format!("{{\"id\": {LARGE}, \"ratio\": 1.10}}");
    let task = flow.submit(submission_of("t", &context)).await.expect("a task").task_uuid;
    let split = flow.next().await;
    assert_eq!(split.context.get(), context);
    let parts = format!(
        "{{\"batch_processing_outcome\": {{\"type\": \"create_batches\", \"cursor_configs\": [{LARGE}]}}, \"n\": {LARGE}}}"
    );
    flow.say(&split, AttemptResult::Complete(exact(&parts))).await.expect("it counts");
    let part = flow.next().await;
    assert_eq!(part.input.as_ref().map(|input| input.get()), Some(LARGE));
    flow.say(&part, AttemptResult::Yielded(exact(LARGE).into_raw())).await.expect("it counts");
    let part = flow.next().await;
    assert_eq!(part.checkpoint.as_ref().map(|checkpoint| checkpoint.get()), Some(LARGE));
    let error = reveille_flow::Failure { context: Some(exact(LARGE)), ..failure(true) };
    flow.say(&part, AttemptResult::Failed(error)).await.expect("it counts");
    let attempts = flow.audit(task, "part_001", 0, 100).await.expect("an answer").expect("a step").attempts;
    let error = serde_json::to_string(&attempts).expect("JSON");
    assert!(error.contains(&format!("\"context\":{LARGE}")), "{error}");
    let part = flow.next().await;
    flow.say(&part, AttemptResult::Complete(exact(LARGE))).await.expect("it counts");
    let end = flow.next().await;
    assert!(end.results.get().contains(&format!(":{LARGE}")), "{}", end.results);
    let shown = serde_json::to_string(&flow.flow.task(task).await.expect("an answer").expect("a task")).expect("JSON");
    assert!(shown.contains(&context) && shown.contains(&parts), "{shown}");
}

/// The context of a schedule is passed to its tasks with all digits.
#[tokio::test]
async fn a_schedule_keeps_every_digit() {
    let flow = Fixture::with("[{name: a}]").await;
    let text = format!(
        "{{\"namespace\": \"{NAMESPACE}\", \"name\": \"s\", \"template\": \"t\", \"version\": \"1.0.0\",
           \"cron\": \"@yearly\", \"context\": [{LARGE}]}}"
    );
    let shown = flow.put_schedule(serde_json::from_str(&text).expect("a schedule")).await.expect("it is kept");
    assert_eq!(shown.schedule.context.get(), format!("[{LARGE}]"));
    let read = flow.schedule(NAMESPACE, "s", 0).await.expect("a schedule");
    assert!(serde_json::to_string(&read).expect("JSON").contains(&format!("\"context\":[{LARGE}]")));
}

/// Two contexts that differ in the last of 21 digits are two tasks; one context in two spellings is one task.
#[tokio::test]
async fn tasks_are_compared_by_every_digit() {
    let flow = Fixture::new().await;
    let text = format!("name: t\nnamespace_name: {NAMESPACE}\nidentity_strategy: strict\nsteps: [{{name: a}}]\n");
    flow.register(&text).await.expect("a template");
    let first = flow.submit(submission_of("t", LARGE)).await.expect("a task");
    flow.submit(submission_of("t", NEXT)).await.expect("another task");
    for same in [LARGE.to_owned(), format!(" {LARGE}.0 "), format!("{LARGE}0e-1")] {
        let again = flow.submit(submission_of("t", &same)).await;
        assert!(matches!(again, Err(Error::Duplicate { task }) if task == first.task_uuid), "{same}: {again:?}");
    }
}

fn submission_of(name: &str, context: &str) -> reveille_flow::Submission {
    reveille_flow::Submission { context: exact(context), ..submission(name, json!(null)) }
}

/// A token names its template. A token edited to another template must not get a result past the schema, nor choose
/// steps of the other template; the worker with the true token keeps the step.
#[tokio::test]
async fn an_edited_token_is_rejected() {
    let flow = Fixture::with("[{name: a, result_schema: {type: integer}}, {name: b, dependencies: [a]}]").await;
    flow.template("loose", "[{name: x}, {name: y, type: decision}, {name: z, dependencies: [y]}]").await;
    flow.submit(submission("loose", json!({}))).await.expect("a task");
    let others = flow.now(9).await;
    let task = flow.task().await;
    let step = flow.next().await;
    assert_eq!(step.name, "a");
    let own = step.token.to_string();
    let own: Vec<&str> = own.split('.').collect();
    let other = others[0].token.to_string();
    let other: Vec<&str> = other.split('.').collect();
    for (template, slot, result) in [
        (other[3], "0", json!("no number")),
        (other[3], "1", json!({"decision_point_outcome": {"type": "create_steps", "step_names": ["z"]}})),
        (own[3], "1", json!("no number")),
    ] {
        let edited: Token = [own[0], own[1], own[2], template, slot].join(".").parse().expect("a token");
        let ended = StepReport { token: edited, result: AttemptResult::Complete(result.into()) };
        let answer = flow.report(vec![ended]).await.expect("an answer").remove(0);
        assert!(matches!(answer, Err(Refused::Invalid { what: "token", .. })), "{answer:?}");
    }
    assert_eq!(flow.states(task).await["a"], "in_progress", "it is still in progress");
    assert_eq!(flow.complete(&step, json!(1)).await.step, StepState::Complete);
    // Repeated with another definition it is still the same claim, which has ended.
    let edited: Token = [own[0], own[1], own[2], other[3], "0"].join(".").parse().expect("a token");
    let again = flow.report(vec![StepReport { token: edited, result: AttemptResult::Complete(json!(1).into()) }]).await;
    assert!(again.expect("an answer").remove(0).expect("it counts").repeated);
}

/// An edited token beside the true one in one call must not replace it.
#[tokio::test]
async fn an_edited_token_does_not_shadow_the_true_one() {
    let flow = Fixture::with("[{name: a}, {name: b}]").await;
    flow.task().await;
    let step = flow.next().await;
    let text = step.token.to_string();
    let slot = if text.ends_with(".0") { "1" } else { "0" };
    let edited: Token = format!("{}{slot}", &text[..text.len() - 1]).parse().expect("a token");
    let both = [edited, step.token].map(|token| StepReport { token, result: AttemptResult::Complete(json!(1).into()) });
    let answers = flow.report(both.into()).await.expect("answers");
    assert!(
        matches!(answers[0], Err(Refused::Invalid { .. } | Refused::Lost))
            || answers[0].as_ref().is_ok_and(|outcome| outcome.repeated)
    );
    assert_eq!(answers[1].as_ref().map(|outcome| outcome.step), Ok(StepState::Complete), "{answers:?}");
}

/// A claim returns a limited number of bytes, and at least one step; the rest is claimed next, uncharged.
#[tokio::test]
async fn an_answer_is_bounded_in_bytes() {
    const STEPS: usize = 5;
    let flow = Fixture::with("[{name: a}]").await;
    let context = json!("x".repeat(6 << 20));
    for _ in 0..STEPS {
        flow.submit(submission("t", context.clone())).await.expect("a task");
    }
    let mut sizes = Vec::new();
    while sizes.iter().sum::<usize>() < STEPS {
        let claimed = flow.now(STEPS).await;
        assert!(claimed.iter().all(|step| step.attempt == 1), "released steps are not charged");
        sizes.push(claimed.len());
        assert!(!claimed.is_empty(), "{sizes:?}");
    }
    assert_eq!(sizes, [2, 2, 1]);
    // A step that is larger than the limit is returned alone.
    flow.submit(submission("t", json!("x".repeat(17 << 20)))).await.expect("a task");
    flow.submit(submission("t", json!(1))).await.expect("a task");
    assert_eq!((flow.now(9).await.len(), flow.now(9).await.len()), (1, 1));
}
