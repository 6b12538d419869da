//! Lists of tasks and templates.

use reveille_flow::{Error, PAGE_MAX, Submission, TaskFilter, TaskState, TemplateFilter};
use serde_json::json;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::fixture::{Fixture, NAMESPACE, submission};

/// All tasks of a filter, page by page.
async fn all(flow: &Fixture, filter: &TaskFilter, limit: usize) -> Vec<Uuid> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = flow.tasks(filter, after, limit).await.expect("a page");
        assert!(page.tasks.len() <= limit);
        found.extend(page.tasks.iter().map(|task| task.task_uuid));
        match page.next {
            Some(next) => after = Some(next),
            None => return found,
        }
    }
}

/// Pages of any size together have all tasks once, the newest first; the last page has no cursor.
#[tokio::test]
async fn pages_are_all_tasks_once() {
    let flow = Fixture::with("[{name: a}]").await;
    assert!(all(&flow, &TaskFilter::default(), 10).await.is_empty());
    let mut tasks = Vec::new();
    for _ in 0..7 {
        tasks.push(flow.task().await);
    }
    tasks.sort();
    tasks.reverse();
    let in_namespace = TaskFilter { namespace: Some(NAMESPACE.to_owned()), ..TaskFilter::default() };
    let of_template = TaskFilter { name: Some("t".to_owned()), ..TaskFilter::default() };
    let ready = TaskFilter { status: Some(TaskState::EnqueuingSteps), ..TaskFilter::default() };
    for filter in [TaskFilter::default(), in_namespace, of_template, ready] {
        for limit in [1, 2, 3, 6, 7, 8, PAGE_MAX] {
            assert_eq!(all(&flow, &filter, limit).await, tasks, "{filter:?} by {limit}");
        }
        let page = flow.tasks(&filter, None, 8).await.expect("a page");
        assert_eq!((page.tasks.len(), page.next), (7, None), "{filter:?}");
    }
    for limit in [0, PAGE_MAX + 1] {
        let error = flow.tasks(&TaskFilter::default(), None, limit).await.expect_err("refused");
        assert!(matches!(error, Error::Invalid { what: "limit", .. }), "{error}");
    }
}

/// Each filter finds exactly the matching tasks, alone and with others.
#[tokio::test]
async fn every_filter_finds_its_matches() {
    let flow = Fixture::with("[{name: a}]").await;
    flow.template("u", "[{name: b}]").await;
    let register = "name: t\nnamespace_name: others\nidentity_strategy: always_unique\nsteps: [{name: c}]\n";
    flow.register(register).await.expect("a template");
    let submit = async |submission: Submission| flow.submit(submission).await.expect("a task").task_uuid;
    let plain = flow.task().await;
    let other = submit(submission("u", json!(1))).await;
    let special = submit(Submission {
        tags: vec!["red".to_owned(), "blue".to_owned()],
        priority: 5,
        correlation_id: Some("order 7".to_owned()),
        initiator: Some("me".to_owned()),
        ..submission("t", json!(1))
    })
    .await;
    let abroad = submit(Submission {
        correlation_id: Some("order 7".to_owned()),
        ..Submission::new("others", "t", "1.0.0", json!(1))
    })
    .await;
    for step in flow.now(9).await {
        match step.token.task {
            task if task == other => flow.fail(&step, false).await,
            _ => flow.complete(&step, json!(1)).await,
        };
    }
    let text = |text: &str| Some(text.to_owned());
    let none = TaskFilter::default();
    let now = OffsetDateTime::now_utc();
    let correlated = TaskFilter { correlation_id: text("order 7"), ..none.clone() };
    for (filter, expected) in [
        (none.clone(), vec![abroad, special, other, plain]),
        (TaskFilter { namespace: text(NAMESPACE), ..none.clone() }, vec![special, other, plain]),
        (TaskFilter { namespace: text("others"), ..none.clone() }, vec![abroad]),
        (TaskFilter { namespace: text("nowhere"), ..none.clone() }, vec![]),
        (TaskFilter { name: text("t"), ..none.clone() }, vec![abroad, special, plain]),
        (TaskFilter { name: text("t"), namespace: text("others"), ..none.clone() }, vec![abroad]),
        (TaskFilter { version: text("2.0.0"), ..none.clone() }, vec![]),
        (TaskFilter { status: Some(TaskState::Complete), ..none.clone() }, vec![special, plain]),
        (TaskFilter { status: Some(TaskState::Error), ..none.clone() }, vec![other]),
        (TaskFilter { status: Some(TaskState::EnqueuingSteps), ..none.clone() }, vec![abroad]),
        (TaskFilter { status: Some(TaskState::StepsInProcess), ..none.clone() }, vec![]),
        (TaskFilter { status: Some(TaskState::Cancelled), ..none.clone() }, vec![]),
        (TaskFilter { priority: Some(5), ..none.clone() }, vec![special]),
        (TaskFilter { tag: text("blue"), ..none.clone() }, vec![special]),
        (TaskFilter { tag: text("green"), ..none.clone() }, vec![]),
        (TaskFilter { initiator: text("me"), ..none.clone() }, vec![special]),
        (correlated.clone(), vec![abroad, special]),
        (TaskFilter { namespace: text("others"), ..correlated.clone() }, vec![abroad]),
        (TaskFilter { status: Some(TaskState::Complete), ..correlated.clone() }, vec![special]),
        (
            TaskFilter { created_after: Some(now - Duration::hours(1)), ..none.clone() },
            vec![abroad, special, other, plain],
        ),
        (TaskFilter { created_before: Some(now - Duration::hours(1)), ..none.clone() }, vec![]),
        (TaskFilter { created_after: Some(now + Duration::hours(1)), ..none.clone() }, vec![]),
    ] {
        for limit in [1, 10] {
            assert_eq!(all(&flow, &filter, limit).await, expected, "{filter:?} by {limit}");
        }
    }
    let middle = flow.summary(special).await.expect("an answer").expect("a task");
    let since = TaskFilter { created_after: Some(middle.created_at), ..none };
    assert_eq!(all(&flow, &since, 10).await, [abroad], "to the microsecond");
}

/// A page among many tasks is found by an index, whatever the statistics, without a sequential scan.
/// Inserts thousands of finished tasks by one statement, and reads the plan.
#[tokio::test]
async fn a_page_is_found_by_an_index() {
    let flow = Fixture::with("[{name: a}]").await;
    flow.task().await;
    let pool = flow.db.database().pool();
    let many = flow.db.schema().sql(
        "insert into {schema}.task (id, namespace_id, template_id, state, priority, unfinished, next_ordinal)
         select gen_random_uuid(), t.namespace_id, t.template_id, 'complete', 0, 0, 1 from {schema}.task t, generate_series(1, 20000)",
    );
    sqlx::query(&many).execute(pool).await.expect("many tasks");
    sqlx::query(flow.db.schema().sql("analyze {schema}.task")).execute(pool).await.expect("statistics");
    let file = include_str!("../../db/statements/find_tasks.sql");
    for (namespace, states, index) in [
        (Some(NAMESPACE), None::<Vec<&str>>, "task_listed"),
        (Some(NAMESPACE), Some(vec!["error"]), "task_listed"),
        (None, Some(vec!["open"]), "task_listed"),
        (None, None, "task_pkey"),
    ] {
        let explain = flow.db.schema().sql(&format!("explain {file}"));
        let query = sqlx::query_scalar(&explain).bind(namespace).bind(states.clone()).bind(None::<&str>);
        let plan: Vec<String> = query
            .bind(Uuid::max())
            .bind(Uuid::nil())
            .bind(50_i64)
            .bind(None::<&str>)
            .fetch_all(pool)
            .await
            .expect("a plan");
        let plan = plan.join("\n");
        assert!(plan.contains(index) && !plan.contains("Seq Scan on task"), "{namespace:?} {states:?}:\n{plan}");
    }
    let open = TaskFilter { status: Some(TaskState::EnqueuingSteps), ..TaskFilter::default() };
    assert_eq!(flow.tasks(&open, None, 10).await.expect("a page").tasks.len(), 1);
    let unknown = TaskFilter { initiator: Some("unknown".to_owned()), ..TaskFilter::default() };
    let page = flow.tasks(&unknown, None, 10).await.expect("a page");
    assert!(page.tasks.is_empty() && page.next.is_some(), "the page ends at the limit of read rows");
}

/// Templates are listed by namespace and name, with their number of steps.
#[tokio::test]
async fn templates_are_listed() {
    let flow = Fixture::with("[{name: a}, {name: b, dependencies: [a]}]").await;
    for (namespace, version) in [("others", "1.0.0"), (NAMESPACE, "2.0.0")] {
        let text = format!(
            "name: t\nnamespace_name: {namespace}\nversion: {version}\ndescription: for people\nsteps: [{{name: c}}]\n"
        );
        flow.register(&text).await.expect("a template");
    }
    let listed = async |filter: TemplateFilter, limit| {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = flow.templates(&filter, after, limit).await.expect("a page");
            found.extend(page.templates);
            after = page.next;
            if after.is_none() {
                return found;
            }
        }
    };
    for limit in [1, 2, 3, 10] {
        let found = listed(TemplateFilter::default(), limit).await;
        let names: Vec<String> =
            found.iter().map(|one| format!("{} {} {}", one.namespace, one.version, one.step_count)).collect();
        assert_eq!(names, ["others 1.0.0 1", "tests 1.0.0 2", "tests 2.0.0 1"], "by {limit}");
        assert_eq!((found[0].description.as_str(), found[1].description.as_str()), ("for people", ""));
    }
    let of = |namespace: Option<&str>, name: Option<&str>| TemplateFilter {
        namespace: namespace.map(str::to_owned),
        name: name.map(str::to_owned),
    };
    assert_eq!(listed(of(Some(NAMESPACE), None), 10).await.len(), 2);
    assert_eq!(listed(of(None, Some("t")), 10).await.len(), 3);
    assert_eq!(listed(of(Some("others"), Some("u")), 10).await.len(), 0);
    let nowhere = flow.templates(&TemplateFilter::default(), Some(i32::MAX), 10).await.expect("a page");
    assert!(nowhere.templates.is_empty() && nowhere.next.is_none(), "it does not start again");
}

/// A NUL character in a template's text must not keep it from being registered and listed: PostgreSQL cannot store it
/// as text, and the template has it as JSON.
#[tokio::test]
async fn a_template_may_have_a_nul_character() {
    let flow = Fixture::new().await;
    let text = r#"{"name": "t", "namespace_name": "tests", "description": "a\u0000b", "input_schema": {"const": "\u0000"}, "steps": [{"name": "a"}]}"#;
    assert!(flow.register(text).await.expect("a template").new);
    let page = flow.templates(&TemplateFilter::default(), None, 10).await.expect("a page");
    assert_eq!(page.templates[0].description, "a\u{fffd}b");
    assert_eq!(flow.flow.template("tests", "t", "1.0.0").await.expect("a template").description, "a\0b");
}

/// Tasks are found by what their context contains, and left out by state and template. A context that jsonb cannot
/// hold matches nothing, and does not break the search.
#[tokio::test]
async fn contexts_are_searched_and_states_are_excluded() {
    let flow = Fixture::with("[{name: a}]").await;
    flow.template("u", "[{name: b}]").await;
    let submit = async |name: &str, context: &str| {
        let context = reveille_flow::Json::parse(context.to_owned()).expect("JSON");
        let submission = Submission { context, ..submission(name, json!(null)) };
        flow.submit(submission).await.expect("a task").task_uuid
    };
    let seven = submit("t", r#"{"order_id": 7, "lines": [{"sku": "x"}]}"#).await;
    let eight = submit("u", r#"{"order_id": 8}"#).await;
    let odd = submit("u", "{\"order_id\": 7, \"text\": \"\\u0000\"}").await;
    let with = |context: &str| TaskFilter { context: Some(context.to_owned()), ..TaskFilter::default() };
    assert_eq!(all(&flow, &with(r#"{"order_id": 7.0}"#), 2).await, [seven]);
    assert_eq!(all(&flow, &with(r#"{"lines": [{"sku": "x"}]}"#), 2).await, [seven]);
    assert_eq!(all(&flow, &with("{}"), 1).await, [eight, seven]);
    for invalid in ["7", "nonsense", "{\"a\":"] {
        let error = flow.tasks(&with(invalid), None, 1).await.expect_err("refused");
        assert!(matches!(error, Error::Invalid { what: "context", .. }), "{error}");
    }

    let operator = reveille_flow::Operator { name: "ann".to_owned(), reason: None };
    flow.cancel(eight, operator).await.expect("cancelled");
    let without = |states: &[TaskState]| TaskFilter { exclude_status: states.to_vec(), ..TaskFilter::default() };
    assert_eq!(all(&flow, &without(&[TaskState::Cancelled]), 1).await, [odd, seven]);
    assert_eq!(all(&flow, &without(&[TaskState::EnqueuingSteps]), 1).await, [eight]);
    let neither = TaskFilter { exclude_name: Some("t".to_owned()), ..without(&[TaskState::Cancelled]) };
    assert_eq!(all(&flow, &neither, 1).await, [odd]);
}
