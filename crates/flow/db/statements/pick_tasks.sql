/* pick_tasks */
-- Those of some tasks ($1) that match: namespace ($2), states ($3), template ($4) and version ($5), priority ($6), tag
-- ($7), correlation ($8), initiator ($9), created after ($10) and before ($11), not of a template ($13), with a context
-- that contains a JSON ($14); null: any. Newest first, at most $12,
-- each with the number of its steps by state, in one snapshot.
-- Index: primary keys; a range for the steps of each. Lookups are fenced: see docs/decisions/0024-fenced-lookups.md.
--        Definitions are read for failed steps only: a task of 10 000 steps takes 667 pages, where it took 30 664.
with picked as materialized (
    select t.id, t.state, t.template_id, t.priority, t.created_at, t.updated_at, t.ended_at, n.name as namespace,
        p.name, p.version,
           k.initiator, k.source_system, k.reason, k.tags, k.correlation_id, k.parent_correlation_id
    from unnest($1::uuid[]) as i (id)
    cross join lateral (select t.* from {schema}.task t where t.id = i.id offset 0) t
    cross join lateral (select p.name, p.version from {schema}.template p where p.id = t.template_id offset 0) p
    cross join lateral (select n.name from {schema}.namespace n where n.id = t.namespace_id offset 0) n
    cross join lateral (select k.* from {schema}.task_detail k where k.task_id = t.id offset 0) k
    where ($2::text is null or n.name = $2)
        and ($3::text[] is null or t.state = any ($3::text[]::{schema}.task_state[]))
        and ($4::text is null or p.name = $4) and ($5::text is null or p.version = $5)
      and ($6::smallint is null or t.priority = $6) and ($7::text is null or $7 = any (k.tags)) and ($8::text is null
          or k.correlation_id = $8)
      and ($9::text is null or k.initiator = $9) and ($10::timestamptz is null or t.created_at > $10)
          and ($11::timestamptz is null or t.created_at < $11)
      and ($13::text is null or p.name <> $13)
      and ($14::text is null or {schema}.context_contains(k.context, $14))
    order by t.id desc
    limit $12
)
select p.id, p.state::text as task_state, p.priority, p.created_at, p.updated_at, p.ended_at as task_ended_at,
    p.namespace, p.name, p.version,
       p.initiator, p.source_system, p.reason, p.tags, p.correlation_id, p.parent_correlation_id, c.*
from picked p
cross join lateral (
    select count(*) as total,
           count(*) filter (where s.state = 'pending') as pending,
           count(*) filter (where s.state = 'ready' or s.state = 'waiting_for_retry' and s.due_at <= now()) as ready,
           count(*) filter (where s.state = 'in_progress') as in_progress,
           count(*) filter (where s.state = 'waiting_for_retry' and s.due_at > now()) as waiting_for_retry,
           count(*) filter (where s.state in ('complete', 'resolved_manually')) as complete,
           count(*) filter (where s.state = 'error' and d.failure_strategy is distinct from 'continue_on_failure'
               and d.failure_strategy is distinct from 'isolate') as failed,
           count(*) filter (where s.state = 'cancelled' or d.failure_strategy in ('continue_on_failure', 'isolate'))
               as dropped
    from {schema}.step s
    left join lateral (
        select d.failure_strategy from {schema}.definition d where s.state = 'error' and d.template_id = p.template_id
            and d.ordinal = s.slot offset 0
    ) d on true
    where s.task_id = p.id and s.state not in ('not_created', 'skipped')
) c
order by p.id desc
