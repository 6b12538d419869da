-- Ends attempts, each fenced by the claim it belongs to, and goes on with their tasks.
-- verbs:    c: complete. f: failed, to be tried again if an attempt is left. F: failed for good. l: its lease has
-- ended, by itself or because the attempt reached the step's timeout.
--           A timeout counts as a failure that is tried again after the backoff; whatever a worker reports after it is
--           refused.
--           y: yielded after a checkpoint, g: given back; these two are not charged.
-- bodies:   the result, the error, the checkpoint. delays_ms: the handler's own pause before the next attempt; null:
-- the template's.
-- templates, definitions: for which definition a token was made: what was said was checked against that. Null: the
-- engine's own.
-- chosen:   the places of the steps that a decision chose. inputs: of the parts that a batchable step asks for.
-- `…_lasts` says where those of each member end.
-- Outcomes: null: another transaction has the task. s: the step is not this claim's any more. x: it is, but of another
--           definition. d and a letter: this claim has ended like that before.
--           Otherwise c, w (to be tried again), e (failed for good), p (failed, and the rest goes on), r and l (ready
--           again); then the task's state, + if steps became ready,
--           and ! if somebody watches.
-- Locks:    the tasks, in order, skip locked; `patient` waits. Then their steps.
-- Cost:     five statements for all members, and as many rows as they and their children are. Lookups are fenced
--           (`offset 0`): see docs/decisions/0024-fenced-lookups.md.
--           Beside 1 000 000 finished tasks one step reads 81 pages, in 0.5 ms; 500 steps of a fan-out of 5 000 take 22
--           ms.
drop function if exists {schema}.settle_steps(
    uuid, text[], text[], boolean, uuid[], integer[], bigint[], text[], text[], bigint[], integer[], integer[], integer[], text[]
);
create or replace function {schema}.settle_steps(
    flight uuid, channels text[], payloads text[], patient boolean,
    tasks uuid[], ordinals integer[], fences bigint[], verbs text[], bodies text[], delays_ms bigint[],
    templates integer[], definitions integer[],
    chosen_lasts integer[], chosen integer[], input_lasts integer[], inputs text[]
) returns table (outcomes text[], backend integer)
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
#variable_conflict use_column
declare
    locked   uuid[];
    places   integer[];
    mine     uuid[];
    steps    integer[];
    slots    integer[];
    verdicts text[];
    -- Of attempts that took too long: the timeout.
    timeouts bigint[];
    member   record;
    opened   record;
    -- What goes on: see functions/advance_tasks.sql.
    ended    uuid[];
    ended_of integer[];
    changed  uuid[];
    changes  integer[];
    gone_on  uuid[];
    publishes boolean;
    told     text[];
    task     integer := 1;
    after    text[];
begin
    if patient then
        locked := array(select t.id from {schema}.task t where t.id = any (tasks) order by t.id for update);
    else
        locked := array(select t.id from {schema}.task t where t.id = any (tasks) order by t.id for update skip locked);
    end if;

    -- The steps that are still of who presents them, and what becomes of each.
    select array_agg(n.place order by n.task_id, n.ordinal), array_agg(n.task_id order by n.task_id, n.ordinal), array_agg(n.ordinal order by n.task_id, n.ordinal),
           array_agg(n.slot order by n.task_id, n.ordinal), array_agg(n.verdict order by n.task_id, n.ordinal),
           array_agg(n.timeout_ms order by n.task_id, n.ordinal), bool_or(n.publishes)
    into places, mine, steps, slots, verdicts, timeouts, publishes
    from (
        select n.place::integer, s.task_id, s.ordinal, s.slot, case
            when n.verb = 'c' then 'c'
            when n.verb in ('g', 'y') then 'r'
            when n.verb = 'l' and s.attempt < d.max_attempts and coalesce(s.since + d.timeout_ms * interval '1 ms' > now(), true) then 'l'
            when n.verb in ('f', 'l') and s.attempt < d.max_attempts then 'w'
            when d.failure_strategy in ('c', 'i') then 'p'
            else 'e' end as verdict,
            case when n.verb = 'l' and s.since + d.timeout_ms * interval '1 ms' <= now() then d.timeout_ms end as timeout_ms,
            d.success_events <> '{}' or d.failure_events <> '{}' as publishes
        -- Said twice in one flight, it is heard once; a worker's word before the engine's.
        from (select distinct on (m.task_id, m.ordinal, m.fence, m.template_id, m.slot) m.*
              from unnest(tasks, ordinals, fences, verbs, templates, definitions)
                   with ordinality as m (task_id, ordinal, fence, verb, template_id, slot, place)
              order by m.task_id, m.ordinal, m.fence, m.template_id, m.slot, m.verb = 'l', m.place) n
        cross join lateral (
            select s.task_id, s.ordinal, s.slot, s.attempt, s.since from {schema}.step s
            where s.task_id = n.task_id and s.ordinal = n.ordinal and s.fence = n.fence and s.state = 'i' and (n.verb <> 'l' or s.due_at <= now())
            for update
        ) s
        join {schema}.task t on t.id = n.task_id
        cross join lateral (select d.* from {schema}.definition d where d.template_id = t.template_id and d.ordinal = s.slot offset 0) d
        -- What a worker says after the timeout does not count: the engine ends the attempt.
        where n.task_id = any (locked) and (n.verb = 'l' or d.timeout_ms is null or s.since + d.timeout_ms * interval '1 ms' > now())
          and (templates is null or (t.template_id = n.template_id and s.slot = n.slot))
    ) n;

    if places is not null then
        for i in 1 .. cardinality(places) loop
            continue when timeouts[i] is null;
            verbs[places[i]] := 't';
            bodies[places[i]] := json_build_object('message', format('the attempt took longer than its timeout of %s ms', timeouts[i]), 'type', 'timeout', 'retryable', true);
        end loop;
        insert into {schema}.attempt (task_id, ordinal, fence, attempt, outcome, worker, ready_at, claimed_at, result, error)
        select s.task_id, s.ordinal, s.fence, s.attempt,
               (case when verbs[n.place] = 't' then case n.verdict when 'w' then 't' else 'T' end when n.verdict = 'r' or verbs[n.place] = 'l' then verbs[n.place] when n.verdict = 'w' then 'f' when n.verdict = 'p' then 'e' else n.verdict end)::"char",
               s.worker, s.ready_at, s.since,
               case when n.verdict = 'c' then bodies[n.place] end, case when n.verdict in ('w', 'p', 'e') then bodies[n.place] end
        from unnest(places, mine, steps, verdicts) as n (place, task_id, ordinal, verdict)
        join {schema}.step s on s.task_id = n.task_id and s.ordinal = n.ordinal;

        update {schema}.step s
        set state = (case when n.verdict = 'p' then 'e' when n.verdict in ('r', 'l') then case when n.failed > 0 then 'p' else 'r' end else n.verdict end)::"char", since = now(),
            attempt = case when n.verdict = 'r' then s.attempt - 1 else s.attempt end,
            due_at = case
                -- Nothing is begun with in a task in which something failed.
                when n.failed > 0 then 'infinity'
                when n.verdict in ('r', 'l') then now()
                when n.verdict = 'w' then now() + coalesce(delays_ms[n.place], {schema}.backoff_ms(n.backoff, n.backoff_base_ms, n.max_backoff_ms, s.attempt, n.jitter)) * interval '1 ms'
                else 'infinity' end,
            -- The lease of a last attempt was the engine's to watch.
            lane_id = n.lane_id
        from (
            select n.*, t.failed, d.backoff, d.backoff_base_ms, d.max_backoff_ms, d.jitter, l.id as lane_id
            from unnest(places, mine, steps, slots, verdicts) as n (place, task_id, ordinal, slot, verdict)
            join {schema}.task t on t.id = n.task_id
            cross join lateral (select d.* from {schema}.definition d where d.template_id = t.template_id and d.ordinal = n.slot offset 0) d
            cross join lateral (select l.id from {schema}.step_lane l where l.namespace_id = t.namespace_id and l.name = d.name and l.priority = t.priority offset 0) l
            offset 0
        ) n
        where s.task_id = n.task_id and s.ordinal = n.ordinal;

        if 'y' = any (verbs) then
            insert into {schema}.step_data as k (task_id, ordinal, checkpoint)
            select n.task_id, n.ordinal, bodies[n.place] from unnest(places, mine, steps) as n (place, task_id, ordinal) where verbs[n.place] = 'y'
            on conflict (task_id, ordinal) do update set checkpoint = excluded.checkpoint;
        end if;
        if 'e' = any (verdicts) then
            perform {schema}.suspend_tasks(array(select n.task_id from unnest(mine, verdicts) as n (task_id, verdict) where n.verdict = 'e'));
        end if;

        select array_agg(n.task_id), array_agg(n.slot), array_agg(n.task_id), array_agg(-1) into ended, ended_of, changed, changes
        from unnest(mine, slots, verdicts) as n (task_id, slot, verdict) where n.verdict in ('c', 'p');
        if chosen_lasts is not null or input_lasts is not null then
            for member in
                select n.task_id, t.template_id, d.ordinal, d.kind,
                       chosen[coalesce(chosen_lasts[n.place - 1], 0) + 1:chosen_lasts[n.place]] as chosen, inputs[coalesce(input_lasts[n.place - 1], 0) + 1:input_lasts[n.place]] as inputs
                from unnest(places, mine, slots, verdicts) as n (place, task_id, slot, verdict)
                join {schema}.task t on t.id = n.task_id
                cross join lateral (select d.ordinal, d.kind from {schema}.definition d where d.template_id = t.template_id and d.ordinal = n.slot offset 0) d
                where n.verdict = 'c' and d.kind in ('d', 'b')
            loop
                opened := {schema}.follow(member.task_id, member.template_id, member.ordinal, member.kind, member.chosen, member.inputs);
                changed := changed || member.task_id;
                changes := changes || opened.change;
                if opened.done is not null then
                    ended := ended || member.task_id;
                    ended_of := ended_of || opened.done;
                end if;
            end loop;
        end if;
    end if;

    select array_agg(a.task_id order by a.task_id), array_agg(a.state::text || case when a.readied then '+' else '' end || case when a.watched then '!' else '' end order by a.task_id)
    into gone_on, after
    from {schema}.advance_tasks(array(select distinct m.id from unnest(mine) as m (id)), ended, ended_of, changed, changes) as a;

    -- A lost ring costs a watcher time; a full queue would cost the write.
    perform pg_notify({watch}, n.task_id::text) from unnest(gone_on, after) as n (task_id, after) where n.after like '%!' and pg_notification_queue_usage() < 0.9;
    if publishes or 'e' = any (verdicts) or 'p' = any (verdicts) then
        perform {schema}.tell(mine, steps, slots, verdicts, array(select verbs[p.place] from unnest(places) as p (place)), array(select bodies[p.place] from unnest(places) as p (place)));
    end if;
    -- Both are in the order of tasks: told side by side, where a join of arrays would take their product.
    told := array_fill(null::text, array[cardinality(tasks)]);
    for i in 1 .. coalesce(cardinality(places), 0) loop
        while gone_on[task] <> mine[i] loop
            task := task + 1;
        end loop;
        told[places[i]] := verdicts[i] || after[task];
    end loop;
    outcomes := array(
        select case
            when told[n.place] is not null then told[n.place]
            when not n.task_id = any (locked) and exists (select from {schema}.task t where t.id = n.task_id) then null
            when templates is not null and exists (
                select from {schema}.step s
                join {schema}.task t on t.id = s.task_id
                where s.task_id = n.task_id and s.ordinal = n.ordinal and s.fence = n.fence and s.state = 'i'
                  and (t.template_id <> n.template_id or s.slot <> n.slot)
            ) then 'x'
            else coalesce((select 'd' || p.outcome::text from {schema}.attempt p where p.task_id = n.task_id and p.ordinal = n.ordinal and p.fence = n.fence), 's') end
        from unnest(tasks, ordinals, fences, templates, definitions)
             with ordinality as n (task_id, ordinal, fence, template_id, slot, place)
        order by n.place);
    backend := {schema}.finish_batch(flight, outcomes, channels, payloads);
    -- After what the flight rings: as many notifications as that are taken for its echo.
    perform {schema}.free_slots(mine, slots);
    return next;
end
$$;
