-- Makes tasks with all their steps.
-- ids:       made by who submits. identities: null: there is none. limits_ms: after how long a task may have taken too long, null: never. tags: of all tasks, `tag_lasts` says where those of each end.
-- Lanes:     must be there, see functions/open_lanes.sql.
-- Outcomes:  o: made; d and a task: that one is the same. null: it was the same, and has been removed since.
-- Locks:     none; it waits for somebody who makes the same task, until that is decided.
-- Cost:      linear in the steps.
create or replace function {schema}.submit_tasks(
    flight uuid, channels text[], payloads text[], patient boolean,
    ids uuid[], templates integer[], priorities smallint[], identities uuid[], limits_ms bigint[], contexts text[], initiators text[], source_systems text[], reasons text[],
    correlations text[], parent_correlations text[], idempotency_keys text[], tag_lasts integer[], tags text[]
) returns table (outcomes text[], backend integer)
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
#variable_conflict use_column
declare
    made     uuid[];
    expected bigint;
    inserted bigint;
begin
    with added as (
        insert into {schema}.task_detail (task_id, identity, context, initiator, source_system, reason, correlation_id, parent_correlation_id, idempotency_key, tags)
        select n.id, n.identity, n.context, n.initiator, n.source_system, n.reason, n.correlation, n.parent_correlation, n.idempotency_key,
               tags[coalesce(lag(n.tag_last) over (order by n.place), 0) + 1:n.tag_last]
        from unnest(ids, identities, contexts, initiators, source_systems, reasons, correlations, parent_correlations, idempotency_keys, tag_lasts)
             with ordinality as n (id, identity, context, initiator, source_system, reason, correlation, parent_correlation, idempotency_key, tag_last, place)
        order by n.place
        on conflict do nothing
        returning task_id
    )
    select coalesce(array_agg(a.task_id), '{}') into made from added a;

    with added as (
        insert into {schema}.task (id, namespace_id, template_id, state, priority, unfinished, next_ordinal, due_at, ended_at)
        select n.id, t.namespace_id, t.id, case when d.steps = 0 then 'c' else 'o' end::"char", n.priority, d.steps, d.steps,
               case when d.steps = 0 then 'infinity' else coalesce(now() + n.limit_ms * interval '1 ms', 'infinity') end, case when d.steps = 0 then now() end
        from unnest(ids, templates, priorities, limits_ms) as n (id, template_id, priority, limit_ms)
        join {schema}.template t on t.id = n.template_id
        cross join lateral (select count(*)::integer as steps from {schema}.definition d where d.template_id = t.id) d
        where n.id = any (made)
        returning unfinished
    )
    select coalesce(sum(a.unfinished), 0) into expected from added a;

    insert into {schema}.step (task_id, ordinal, slot, lane_id, state, waiting, due_at, ready_at)
    select n.id, d.ordinal, d.ordinal, l.id, case when d.absent then 'a' when d.parents = '{}' then 'r' else 'p' end::"char", cardinality(d.parents),
           case when d.parents = '{}' and not d.absent then now() else 'infinity' end, case when d.parents = '{}' and not d.absent then now() end
    from unnest(ids, templates, priorities) as n (id, template_id, priority)
    join {schema}.template t on t.id = n.template_id
    join {schema}.definition d on d.template_id = t.id
    cross join lateral (select l.id from {schema}.step_lane l where l.namespace_id = t.namespace_id and l.name = d.name and l.priority = n.priority offset 0) l
    where n.id = any (made);
    get diagnostics inserted = row_count;
    if inserted <> expected then
        raise exception 'a lane is missing: % of % steps could be made', inserted, expected;
    end if;

    outcomes := array(
        select case when n.id = any (made) then 'o' else (select 'd' || k.task_id from {schema}.task_detail k where k.identity = n.identity) end
        from unnest(ids, identities) with ordinality as n (id, identity, place) order by n.place);
    backend := {schema}.finish_batch(flight, outcomes, channels, payloads);
    return next;
end
$$;
