-- Creates tasks with all their steps.
-- tasks:    see the type new_task; the caller generates the ids.
-- Queues:   must exist: see functions/open_queues.sql.
-- Outcomes: created; duplicate <task>: a task with the same identity exists. null: it existed, and was removed
--           meanwhile.
-- Locks:    none; it waits for a transaction that creates a task of the same identity.
-- Cost:     linear in the steps.
create or replace function {schema}.submit_tasks(
    batch_id uuid, channels text[], payloads text[], patient boolean, tasks {schema}.new_task[]
) returns table (outcomes text[], backend integer)
language plpgsql volatile set search_path = reveille_own {index_plans} set jit = off
as $$
#variable_conflict use_column
declare
    created  uuid[];
    expected bigint;
    inserted bigint;
begin
    with added as (
        insert into {schema}.task_detail (
            task_id, identity, context, initiator, source_system, reason, correlation_id, parent_correlation_id,
            idempotency_key, tags)
        select new.id, new.identity, new.context, new.initiator, new.source_system, new.reason, new.correlation_id,
               new.parent_correlation_id, new.idempotency_key, new.tags
        from unnest(tasks) as new
        on conflict do nothing
        returning task_id
    )
    select coalesce(array_agg(added.task_id), '{}') into created from added;

    with added as (
        insert into {schema}.task (
            id, namespace_id, template_id, state, priority, unfinished, next_ordinal, due_at, ended_at)
        select new.id, template.namespace_id, template.id,
               case when counted.steps = 0 then 'complete' else 'open' end::{schema}.task_state,
               new.priority, counted.steps, counted.steps,
               case when counted.steps = 0 then 'infinity'
                   else coalesce(now() + new.limit_ms * interval '1 ms', 'infinity') end,
               case when counted.steps = 0 then now() end
        from unnest(tasks) as new
        join {schema}.template on template.id = new.template_id
        cross join lateral (
            select count(*)::integer as steps from {schema}.definition d where d.template_id = template.id
        ) counted
        where new.id = any (created)
        returning unfinished
    )
    select coalesce(sum(added.unfinished), 0) into expected from added;

    insert into {schema}.step (task_id, ordinal, slot, queue_id, state, open_parents, due_at, ready_at)
    select new.id, definition.ordinal, definition.ordinal, queue.id,
           case when definition.conditional then 'not_created' when first.ready then 'ready'
               else 'pending' end::{schema}.step_state,
           cardinality(definition.parents),
           case when first.ready then now() else 'infinity' end,
           case when first.ready then now() end
    from unnest(tasks) as new
    join {schema}.template on template.id = new.template_id
    join {schema}.definition on definition.template_id = template.id
    cross join lateral (select definition.parents = '{}' and not definition.conditional as ready) first
    cross join lateral (
        select q.id from {schema}.step_queue q
        where q.namespace_id = template.namespace_id and q.name = definition.name and q.priority = new.priority
        offset 0
    ) queue
    where new.id = any (created);
    get diagnostics inserted = row_count;
    if inserted <> expected then
        raise exception 'a step queue is missing: % of % steps could be created', inserted, expected;
    end if;

    outcomes := array(
        select case when new.id = any (created) then 'created' else (
            select 'duplicate ' || other.task_id from {schema}.task_detail other where other.identity = new.identity
        ) end
        from unnest(tasks) as new);
    backend := {schema}.finish_batch(batch_id, outcomes, channels, payloads);
    return next;
end
$$;
