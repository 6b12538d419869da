//! The invariants of a task between transactions.

use uuid::Uuid;

use crate::fixture::Fixture;

/// The violated invariants of a task, as texts. For each step: whether its successors need not wait for it.
const SQL: &str = "
with listed as (
    select s.*, d.name, d.parents, d.max_attempts, s.state in ('complete', 'resolved_manually', 'skipped') or s.state = 'error' and coalesce(d.failure_strategy in ('continue_on_failure', 'isolate'), false) as done,
           t.state as task_state, t.failed, t.unfinished, t.due_at as task_due, t.ended_at
    from {schema}.step s
    join {schema}.task t on t.id = s.task_id
    join {schema}.definition d on d.template_id = t.template_id and d.ordinal = s.slot
    where s.task_id = $1
), parented as (
    select w.*, w.open_parents as stored_parents, (select count(*) from listed o where o.slot = any (w.parents) and not o.done) as counted_parents from listed w
)
select concat(p.name, ' ', p.state, ': it waits for ', p.stored_parents, ', and ', p.counted_parents, ' are not done')
from parented p where p.state in ('pending', 'ready') and p.stored_parents <> p.counted_parents
union all
select concat(p.name, ' ', p.state, ': ', p.stored_parents, ' to wait for, ', p.failed, ' failed, the task is ', p.task_state)
from parented p where (p.state = 'ready') <> (p.state in ('pending', 'ready') and p.stored_parents = 0 and p.failed = 0 and p.task_state = 'open')
union all
select concat(p.name, ' ', p.state, ': it is due at ', p.due_at)
from parented p where (p.due_at < 'infinity') <> (p.state in ('ready', 'in_progress') or p.state = 'waiting_for_retry' and p.failed = 0 and p.task_state = 'open')
union all
select concat(p.name, ' is in queue ', p.queue_id, ' with attempt ', p.attempt, ' of ', p.max_attempts)
from parented p where p.state = 'in_progress' and (p.queue_id = 0) <> (p.failed > 0 or p.attempt >= p.max_attempts)
union all
select concat('the task is ', p.task_state, ' with ', p.unfinished, ' unfinished and ', p.failed, ' failed, due at ', p.task_due, ', ended at ', coalesce(p.ended_at::text, 'no time'))
from (select p.task_state, p.unfinished, p.failed, p.task_due, p.ended_at, count(*) filter (where not p.done) as open, count(*) filter (where p.state = 'error' and not p.done) as errors,
             count(*) filter (where p.state = 'in_progress') as begun
      from parented p group by 1, 2, 3, 4, 5) p
where p.unfinished <> p.open or p.failed <> p.errors or (p.task_state = 'complete') <> (p.unfinished = 0) and p.task_state in ('open', 'error', 'complete') or (p.ended_at is null) <> (p.task_state = 'open')
   or p.task_state = 'open' and p.failed > 0 and p.begun = 0 or p.task_state = 'error' and (p.failed = 0 or p.begun > 0) or p.task_state <> 'open' and p.task_due < 'infinity'";

impl Fixture {
    /// Checks the invariants of a task.
    pub(crate) async fn check_invariants(&self, task: Uuid, after: &str) {
        let sql = self.db.schema().sql(SQL);
        let wrong: Vec<String> =
            sqlx::query_scalar(&sql).bind(task).fetch_all(self.db.database().pool()).await.expect("a look");
        assert!(wrong.is_empty(), "after {after}: {wrong:#?}");
        crate::history::checked(self, task).await;
    }
}
