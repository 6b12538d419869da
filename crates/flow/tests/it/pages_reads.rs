//! The pages that lists, summaries, analytics and filters read are bounded, with a large task among many tasks.

use reveille_flow::{
    BulkFilter, BulkOperation, BulkRequest, EventFilter, InvestigationFilter, ScheduleFilter, TaskFilter, TaskState,
    TemplateFilter,
};
use reveille_pg::testing::CountingRole;
use serde_json::json;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::fixture::{Fixture, NAMESPACE, submission};
use crate::manual::who;
use crate::pages::counted;

/// Tasks that have ended; of each thousand the first is tagged `rare`.
const TASKS: i64 = 12_000;
/// Steps of the one task that has many.
const STEPS: i64 = 1_000;

/// Inserts tasks of `t` with steps that were completed long ago, and the completed steps of the wide task, as the
/// engine would.
const FILL: &str = "
with made as (
    select ('01900000' || lpad(to_hex(i), 8, '0') || '7000800000000000')::uuid as id, i from generate_series(1, $1) as i
), tasks as (
    insert into {schema}.task (id, namespace_id, template_id, state, priority, unfinished, next_ordinal, created_at, ended_at)
    select m.id, t.namespace_id, t.id, 'complete', 0, 0, 1, now(), now() from made m cross join {schema}.template t where t.name = 't'
), details as (
    insert into {schema}.task_detail (task_id, context, tags)
    select m.id, '{}', case when m.i % 1000 = 1 then array['often', 'rare'] else array['often'] end from made m
), attempts as (
    insert into {schema}.attempt (task_id, ordinal, fence, attempt, outcome, ready_at, claimed_at, result)
    select m.id, 0, 1, 1, 'complete'::{schema}.attempt_outcome, now(), now(), '1' from made m
    union all
    select $2, i, 1, 1, 'complete'::{schema}.attempt_outcome, now(), now(), '1' from generate_series(0, $3 - 1) as i
), events as (
    insert into {schema}.domain_event (task_id, ordinal, name, succeeded)
    select m.id, 0, case when m.i = $1 then 'rare' else 'often' end, true from made m
), investigated as (
    insert into {schema}.investigation (task_id, ordinal, reason, snapshot, resolved_at)
    select m.id, 0, case when m.i = 1 then 'rare' else 'often' end, '{}', case when m.i % 1000 <> 1 then now() end
    from made m
), schedules as (
    insert into {schema}.schedule (id, namespace_id, name, template_name, template_version, context, priority, tags, at,
                                   missed, grace_seconds, paused, next_at, due_at)
    select m.id, t.namespace_id, 's' || m.i, case when m.i = $1 then 'rare' else 't' end, '1.0.0', '{}', 0, '{}', now(),
           'skip', 60, true, 'infinity', 'infinity'
    from made m cross join {schema}.template t where t.name = 't'
), templates as (
    insert into {schema}.template (namespace_id, name, version, document, staleness)
    select t.namespace_id, 'x' || m.i % 100, '1.0.' || m.i, '{}', 'error'
    from made m cross join {schema}.template t where t.name = 't'
), done as (
    update {schema}.step s set state = 'complete', fence = 1, due_at = 'infinity' where s.task_id = $2
)
insert into {schema}.step (task_id, ordinal, slot, queue_id, state, open_parents, fence)
select m.id, 0, 0, (select l.id from {schema}.step_queue l where l.name = 'a' limit 1), 'complete', 0, 1 from made m";

/// Unique parts of statements: PostgreSQL 18 does not keep the comment before a statement, which has its name.
const PICK_TASKS: &str = "with picked as materialized";
const FIND_TASKS: &str = "select k.task_id as id";
const BOTTLENECKS: &str = "), lengths as materialized (";
const PERFORMANCE: &str = "select t.id, t.template_id, t.state, t.ended_at, t.created_at from";
const OPERABLE_TASKS: &str = "select o.id, count(*) over () as matched";

const INVESTIGATIONS: &str = "i.task_id, i.reason, i.resolved_at";
const DOMAIN_EVENTS: &str = "e.transaction_id, e.id, e.task_id";
const FIND_SCHEDULES: &str = "s.namespace_id, s.template_name, s.paused";
const LIST_TEMPLATES: &str = "t.description, t.step_count";
const TASK_STEPS: &str = "as rest";
const TASK_ATTEMPTS: &str = "tried as materialized";
/// The most rows that a page of a list reads.
const READ_ROWS: i64 = 10_000;

/// The pages that a statement reads during a call, and the result of the call.
async fn pages<T>(role: &CountingRole, statement: &str, what: impl Future<Output = T>) -> (i64, T) {
    let before = role.pages_matching(statement).await;
    let of = what.await;
    (role.pages_matching(statement).await - before, of)
}

/// A preview of cancelling all open tasks.
fn cancel_open() -> BulkRequest {
    let filter = BulkFilter { namespace: Some(NAMESPACE.to_owned()), ..BulkFilter::default() };
    BulkRequest { filter, operation: BulkOperation::CancelTask, limit: 100, preview: true }
}

/// A flow whose tables have grown since they were analyzed and since the plans were made; and its wide task.
async fn grown() -> Option<(Fixture, CountingRole, Uuid)> {
    let (flow, role) = counted().await?;
    flow.template("t", "[{name: a}]").await;
    let steps: Vec<String> = (0..STEPS).map(|step| format!("{{name: s{step}}}")).collect();
    flow.template("wide", &format!("[{}]", steps.join(", "))).await;
    let small = flow.task().await;
    flow.db.analyze().await;
    for _ in 0..7 {
        flow.summary(small).await.expect("a summary");
        flow.tasks(&TaskFilter::default(), None, 20).await.expect("a list");
        flow.bottlenecks(None, OffsetDateTime::UNIX_EPOCH, 20).await.expect("bottlenecks");
        flow.performance(None, OffsetDateTime::UNIX_EPOCH).await.expect("performance");
        flow.bulk(cancel_open(), who()).await.expect("a preview");
        flow.investigations(&InvestigationFilter::default(), 20).await.expect("a list");
        flow.domain_events(&EventFilter::default(), 20).await.expect("events");
        flow.schedules(&ScheduleFilter::default()).await.expect("schedules");
        flow.templates(&TemplateFilter::default(), None, 20).await.expect("templates");
        flow.flow.steps(small, None, 20).await.expect("steps");
        flow.audit(small, "a", 0, 20).await.expect("attempts");
    }
    let wide = flow.submit(submission("wide", json!({}))).await.expect("a task").task_uuid;
    let sql = flow.db.schema().sql(FILL);
    let fill = sqlx::query(&sql).bind(TASKS).bind(wide).bind(STEPS);
    fill.execute(flow.db.database().pool()).await.expect("filled");
    Some((flow, role, wide))
}

/// With many tasks, and a large one among them, every read costs what it returns and filters, and no more.
/// The tables are not analyzed after they have grown.
#[tokio::test]
async fn reads_cost_what_they_return() {
    let Some((flow, role, wide)) = grown().await else { return };
    let (read, summary) = pages(&role, PICK_TASKS, flow.summary(wide)).await;
    assert_eq!(i64::from(summary.expect("a summary").expect("a task").total_steps), STEPS);
    assert!((1..STEPS * 2).contains(&read), "{read} pages for the summary of a task of {STEPS} steps");

    let (read, page) = pages(&role, PICK_TASKS, flow.tasks(&TaskFilter::default(), None, 20)).await;
    assert!(page.expect("a page").tasks.iter().any(|task| task.task_uuid == wide));
    assert!((1..STEPS * 2 + 1_000).contains(&read), "{read} pages for a list of 20 tasks");

    // Ten thousand tasks are read.
    let since = OffsetDateTime::UNIX_EPOCH;
    let (read, found) = pages(&role, BOTTLENECKS, flow.bottlenecks(None, since, 20)).await;
    assert_eq!(found.expect("bottlenecks").steps.len(), 20);
    assert!((1..10_000 * 15).contains(&read), "{read} pages for bottlenecks");
    let (read, found) = pages(&role, PERFORMANCE, flow.performance(None, since)).await;
    assert_eq!(found.expect("performance").templates.len(), 2);
    assert!((1..10_000 * 15).contains(&read), "{read} pages for performance");

    let (read, report) = pages(&role, OPERABLE_TASKS, flow.bulk(cancel_open(), who())).await;
    assert_eq!(report.expect("a preview").matched, 2);
    assert!((1..1_000).contains(&read), "{read} pages for two open tasks among {TASKS}");
}

/// A list by a rare tag is found by its index, also beyond the rows of one page; by a frequent tag, and with other
/// filters, a page is full.
#[tokio::test]
async fn a_rare_tag_uses_its_index() {
    let Some((flow, role, _)) = grown().await else { return };
    let tagged = |tag: &str| TaskFilter { tag: Some(tag.to_owned()), ..TaskFilter::default() };
    let (read, page) = pages(&role, FIND_TASKS, flow.tasks(&tagged("rare"), None, 100)).await;
    let page = page.expect("a page");
    assert_eq!((page.tasks.len() as i64, page.next), (TASKS / 1_000, None));
    assert!((1..200).contains(&read), "{read} pages for {} tasks of {TASKS}", page.tasks.len());
    let ids: Vec<Uuid> = page.tasks.iter().map(|task| task.task_uuid).collect();
    assert!(ids.is_sorted_by(|newer, older| newer > older), "the newest first");

    let first = flow.tasks(&tagged("rare"), None, 5).await.expect("a page");
    let rest = flow.tasks(&tagged("rare"), first.next, 100).await.expect("a page");
    let both: Vec<Uuid> = first.tasks.iter().chain(&rest.tasks).map(|task| task.task_uuid).collect();
    assert_eq!(both, ids, "page by page");
    let open = TaskFilter { status: Some(TaskState::Cancelled), ..tagged("rare") };
    assert_eq!(flow.tasks(&open, None, 100).await.expect("a page").tasks.len(), 0);
    assert_eq!(flow.tasks(&tagged("often"), None, 100).await.expect("a page").tasks.len(), 100);
}

/// A tag that many old tasks have, and recent ones do not, is not treated as a rare one: all of those would be read.
/// Twelve thousand tasks have it, and fifteen hundred newer ones do not.
#[tokio::test]
async fn a_tag_of_many_old_tasks_is_no_rare_one() {
    let Some((flow, role, _)) = grown().await else { return };
    let newer = "
        with made as (select ('ff900000' || lpad(to_hex(i), 8, '0') || '7000800000000000')::uuid as id from generate_series(1, 1500) as i),
        details as (insert into {schema}.task_detail (task_id, context, tags) select m.id, '{}', '{}' from made m)
        insert into {schema}.task (id, namespace_id, template_id, state, priority, unfinished, next_ordinal, ended_at)
        select m.id, t.namespace_id, t.id, 'complete', 0, 0, 1, now() from made m cross join {schema}.template t where t.name = 't'";
    let newer = flow.db.schema().sql(newer);
    sqlx::query(&newer).execute(flow.db.database().pool()).await.expect("newer tasks");
    let often = TaskFilter { tag: Some("often".to_owned()), ..TaskFilter::default() };
    let (read, page) = pages(&role, FIND_TASKS, flow.tasks(&often, None, 20)).await;
    assert_eq!(page.expect("a page").tasks.len(), 20);
    // Two times a thousand tasks by the primary key, and not all that have the tag.
    assert!((1..150).contains(&read), "{read} pages to find 20 tasks");
}

/// Investigations, domain events, schedules and templates are read by the page; a page with a filter reads a limited
/// number of rows and has a cursor. Of each there are more than one page reads; the match is the last one.
#[tokio::test]
async fn lists_read_a_limited_number_of_rows() {
    let Some((flow, role, _)) = grown().await else { return };
    let text = |text: &str| Some(text.to_owned());
    let any = InvestigationFilter::default();
    let (read, page) = pages(&role, INVESTIGATIONS, flow.investigations(&any, 20)).await;
    let page = page.expect("a page");
    assert_eq!((page.entries.len(), page.next), (20, page.entries.last().map(|last| last.id)));
    assert!((1..2_000).contains(&read), "{read} pages for 20 investigations");
    let rare = InvestigationFilter { namespace: text(NAMESPACE), reason: text("rare"), ..any.clone() };
    let (read, page) = pages(&role, INVESTIGATIONS, flow.investigations(&rare, 20)).await;
    let page = page.expect("a page");
    assert!(page.entries.is_empty() && page.next.is_some(), "{page:?}");
    assert!((1..READ_ROWS * 8).contains(&read), "{read} pages for investigations of a reason");
    let rest = flow.investigations(&InvestigationFilter { before: page.next, ..rare }, 20).await.expect("a page");
    assert_eq!((rest.entries.len(), rest.next), (1, None));
    let open = InvestigationFilter { open: Some(true), ..any };
    let (read, page) = pages(&role, INVESTIGATIONS, flow.investigations(&open, 20)).await;
    assert_eq!(page.expect("a page").entries.len() as i64, TASKS / 1_000);
    assert!((1..2_000).contains(&read), "{read} pages for open investigations");

    let mut filter = EventFilter::default();
    // Transactions of other tests that began earlier hold events back.
    reveille_pg::testing::eventually("the events can be read", async || {
        !flow.domain_events(&filter, 1).await.expect("events").events.is_empty()
    })
    .await;
    let (read, page) = pages(&role, DOMAIN_EVENTS, flow.domain_events(&filter, 20)).await;
    assert_eq!(page.expect("a page").events.len(), 20);
    assert!((1..2_000).contains(&read), "{read} pages for 20 events");
    filter.names = Some(vec!["rare".to_owned()]);
    let (read, page) = pages(&role, DOMAIN_EVENTS, flow.domain_events(&filter, 20)).await;
    let page = page.expect("a page");
    assert!(page.events.is_empty() && page.next.is_some(), "{page:?}");
    assert!((1..READ_ROWS * 8).contains(&read), "{read} pages for events of a name");
    filter.after = page.next;
    let rest = flow.domain_events(&filter, 20).await.expect("a page");
    assert_eq!(rest.events.len(), 1);
    assert_eq!(rest.next.as_deref(), Some(rest.events[0].cursor.as_str()));

    let mut filter = ScheduleFilter { limit: Some(20), ..ScheduleFilter::default() };
    let (read, page) = pages(&role, FIND_SCHEDULES, flow.schedules(&filter)).await;
    assert_eq!(page.expect("a page").schedules.len(), 20);
    assert!((1..2_000).contains(&read), "{read} pages for 20 schedules");
    filter.template = text("rare");
    let (read, page) = pages(&role, FIND_SCHEDULES, flow.schedules(&filter)).await;
    let page = page.expect("a page");
    assert!(page.schedules.is_empty() && page.next.is_some(), "{page:?}");
    assert!((1..READ_ROWS * 2).contains(&read), "{read} pages for schedules of a template");
    filter.after = page.next;
    let rest = flow.schedules(&filter).await.expect("a page");
    assert_eq!((rest.schedules.len(), rest.next), (1, None));

    for filter in [TemplateFilter::default(), TemplateFilter { namespace: text(NAMESPACE), name: text("x7") }] {
        let first = flow.templates(&filter, None, 20).await.expect("a page");
        let (read, page) = pages(&role, LIST_TEMPLATES, flow.templates(&filter, first.next, 20)).await;
        assert_eq!(page.expect("a page").templates.len(), 20);
        assert!((1..1_000).contains(&read), "{read} pages for 20 templates of {filter:?}");
    }
}

/// A page of the steps of a large task costs its own size and the counts; a single step and its attempts cost the same
/// as in a small task.
#[tokio::test]
async fn steps_are_read_by_the_page() {
    let Some((flow, role, wide)) = grown().await else { return };
    let (read, page) = pages(&role, TASK_STEPS, flow.flow.steps(wide, Some("s9"), 20)).await;
    assert_eq!(page.expect("an answer").expect("a task").steps.len(), 20);
    assert!((1..STEPS * 2 + 1_000).contains(&read), "{read} pages for 20 steps of {STEPS}");
    let (read, step) = pages(&role, TASK_STEPS, flow.flow.step(wide, "s700")).await;
    assert_eq!(step.expect("an answer").expect("a step").name, "s700");
    assert!((1..200).contains(&read), "{read} pages for one step");
    let (read, audit) = pages(&role, TASK_ATTEMPTS, flow.audit(wide, "s700", 0, 20)).await;
    assert_eq!(audit.expect("an answer").expect("a step").attempts.len(), 1);
    assert!((1..200).contains(&read), "{read} pages for the attempts at one step");
}
