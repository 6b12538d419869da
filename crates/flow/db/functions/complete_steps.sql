-- Ends attempts, each fenced by its claim, and advances their tasks.
-- reports:  see the type step_report. A report that arrives after the step's timeout is refused: the engine ends that
--           attempt as a failure, which is retried after the backoff. yielded and given_back are not charged.
-- Outcomes: null: another transaction has locked the task. lost: the claim does not hold the step any more.
--           other_step: it does, but the token was issued for another definition. repeated <outcome>: this claim has
--           ended before, with that outcome. Otherwise `<verdict> <task state>`, then `readied` if steps became ready
--           and `watched` if a client watches the task. Verdicts: see the type ended_step.
-- Locks:    the tasks, in order, skip locked; `patient` waits. Then their steps.
-- Cost:     five statements for all reports, and as many rows as they and their children are. Lookups are fenced
--           (`offset 0`): see docs/decisions/0024-fenced-lookups.md. Beside 1 000 000 finished tasks one step reads 81
--           pages, in 0.5 ms; 500 steps of a fan-out of 5 000 take 22 ms.
create or replace function {schema}.complete_steps(
    batch_id uuid, channels text[], payloads text[], patient boolean, reports {schema}.step_report[]
) returns table (outcomes text[], backend integer)
language plpgsql volatile set search_path = reveille_own {index_plans} set jit = off
as $$
#variable_conflict use_column
declare
    reported uuid[] := array(select report.task_id from unnest(reports) as report);
    locked   uuid[];
    ended    {schema}.ended_step[];
    one      {schema}.ended_step;
    applied  record;
    -- What advances: see functions/advance_tasks.sql.
    done_tasks    uuid[];
    done_slots    integer[];
    changed_tasks uuid[];
    changes       integer[];
    -- By task: its state, `readied`, `watched`.
    task_results  jsonb;
    -- By report: what it led to.
    results       text[] := array_fill(null::text, array[cardinality(reports)]);
begin
    if patient then
        locked := array(select task.id from {schema}.task where task.id = any (reported) order by task.id for update);
    else
        locked := array(
            select task.id from {schema}.task where task.id = any (reported) order by task.id for update skip locked);
    end if;

    -- The steps that their claims still hold, and what each report leads to.
    ended := array(
        select row(
            report.index, step.task_id, step.ordinal, step.slot, queue.id, task.template_id, definition.kind,
            decided.verdict,
            case
                when decided.timed_out and decided.verdict = 'retry' then 'timed_out'
                when decided.timed_out then 'timed_out_for_good'
                when report.report in ('lease_ended', 'given_back', 'yielded') then report.report
                when decided.verdict = 'complete' then 'complete'
                when decided.verdict = 'retry' then 'failed'
                else 'failed_for_good' end,
            case when decided.timed_out then json_build_object(
                    'message', format('the attempt exceeded its timeout of %s ms', definition.timeout_ms),
                    'type', 'timeout', 'retryable', true)::text
                else report.body end,
            case when decided.verdict = 'retry' then coalesce(report.delay_ms, {schema}.backoff_ms(
                definition.backoff, definition.backoff_base_ms, definition.max_backoff_ms, step.attempt,
                definition.jitter)) end,
            task.failed > 0, report.report = 'failed_for_good',
            definition.success_events <> '{}' or definition.failure_events <> '{}',
            report.chosen, report.inputs
        )::{schema}.ended_step
        -- A report that is repeated in one batch counts once; a worker's report before the engine's.
        from (
            select distinct on (r.task_id, r.ordinal, r.fence, r.template_id, r.slot) r.*
            from unnest(reports) with ordinality as r (
                task_id, ordinal, fence, report, body, delay_ms, template_id, slot, chosen, inputs, index)
            where r.task_id = any (locked)
            order by r.task_id, r.ordinal, r.fence, r.template_id, r.slot, r.report = 'lease_ended', r.index
        ) report
        cross join lateral (
            select s.task_id, s.ordinal, s.slot, s.attempt, s.since
            from {schema}.step s
            where s.task_id = report.task_id and s.ordinal = report.ordinal and s.fence = report.fence
              and s.state = 'in_progress' and (report.report <> 'lease_ended' or s.due_at <= now())
            for update
        ) step
        join {schema}.task on task.id = report.task_id
        cross join lateral (
            select d.* from {schema}.definition d where d.template_id = task.template_id and d.ordinal = step.slot
            offset 0
        ) definition
        cross join lateral (
            select q.id from {schema}.step_queue q
            where q.namespace_id = task.namespace_id and q.name = definition.name and q.priority = task.priority
            offset 0
        ) queue
        cross join lateral (
            select coalesce(step.since + definition.timeout_ms * interval '1 ms' <= now(), false) as timed_out offset 0
        ) timing
        cross join lateral (
            select timing.timed_out, case
                when report.report = 'complete' then 'complete'
                when report.report in ('given_back', 'yielded') then 'released'
                when report.report = 'lease_ended' and step.attempt < definition.max_attempts
                    and not timing.timed_out then 'lease_ended'
                when report.report in ('failed', 'lease_ended') and step.attempt < definition.max_attempts then 'retry'
                when definition.failure_strategy in ('continue_on_failure', 'isolate') then 'part_failed'
                else 'failed' end as verdict
        ) decided
        -- After the timeout only the engine's own report counts.
        where (report.report = 'lease_ended' or not timing.timed_out)
          and (report.template_id is null or (task.template_id = report.template_id and step.slot = report.slot))
        order by step.task_id, step.ordinal
    );

    insert into {schema}.attempt (
        task_id, ordinal, fence, attempt, outcome, worker, ready_at, claimed_at, result, error)
    select step.task_id, step.ordinal, step.fence, step.attempt, e.outcome, step.worker, step.ready_at, step.since,
           case when e.verdict = 'complete' then e.body end,
           case when e.verdict in ('retry', 'part_failed', 'failed') then e.body end
    from unnest(ended) as e
    join {schema}.step on step.task_id = e.task_id and step.ordinal = e.ordinal;

    update {schema}.step
    set state = case
            when e.verdict = 'complete' then 'complete'
            when e.verdict = 'retry' then 'waiting_for_retry'
            when e.verdict in ('part_failed', 'failed') then 'error'
            when e.suspended then 'pending'
            else 'ready' end::{schema}.step_state,
        since = now(),
        attempt = case when e.verdict = 'released' then step.attempt - 1 else step.attempt end,
        due_at = case
            when e.suspended then 'infinity'
            when e.verdict in ('released', 'lease_ended') then now()
            when e.verdict = 'retry' then now() + e.pause_ms * interval '1 ms'
            else 'infinity' end,
        -- The engine's queue may have held its lease.
        queue_id = e.queue_id
    from unnest(ended) as e
    where step.task_id = e.task_id and step.ordinal = e.ordinal;

    if exists (select from unnest(ended) as e where e.outcome = 'yielded') then
        insert into {schema}.step_data as stored (task_id, ordinal, checkpoint)
        select e.task_id, e.ordinal, e.body from unnest(ended) as e where e.outcome = 'yielded'
        on conflict (task_id, ordinal) do update set checkpoint = excluded.checkpoint;
    end if;
    if exists (select from unnest(ended) as e where e.verdict = 'failed') then
        perform {schema}.suspend_tasks(array(select e.task_id from unnest(ended) as e where e.verdict = 'failed'));
    end if;

    select array_agg(e.task_id), array_agg(e.slot), array_agg(e.task_id), array_agg(-1)
    into done_tasks, done_slots, changed_tasks, changes
    from unnest(ended) as e
    where e.verdict in ('complete', 'part_failed');
    for one in
        select e.* from unnest(ended) as e where e.verdict = 'complete' and e.kind in ('decision', 'batchable')
    loop
        applied := {schema}.apply_result(one.task_id, one.template_id, one.slot, one.kind, one.chosen, one.inputs);
        changed_tasks := changed_tasks || one.task_id;
        changes := changes || applied.change;
        if applied.done is not null then
            done_tasks := done_tasks || one.task_id;
            done_slots := done_slots || applied.done;
        end if;
    end loop;

    select jsonb_object_agg(advanced.task_id, concat_ws(' ', advanced.state,
               case when advanced.readied then 'readied' end, case when advanced.watched then 'watched' end))
    into task_results
    from {schema}.advance_tasks(
        array(select distinct e.task_id from unnest(ended) as e), done_tasks, done_slots, changed_tasks, changes
    ) as advanced;

    -- Best effort: a lost notification delays a client; a full notification queue would fail the transaction.
    perform pg_notify({watch}, result.key) from jsonb_each_text(task_results) as result
    where result.value like '% watched' and pg_notification_queue_usage() < 0.9;
    if exists (select from unnest(ended) as e where e.publishes or e.verdict in ('failed', 'part_failed')) then
        perform {schema}.publish_events(ended);
    end if;

    foreach one in array ended loop
        results[one.index] := one.verdict || ' ' || (task_results ->> one.task_id::text);
    end loop;
    outcomes := array(
        select case
            when results[report.index] is not null then results[report.index]
            when not report.task_id = any (locked)
                and exists (select from {schema}.task where task.id = report.task_id) then null
            when exists (
                select from {schema}.step
                join {schema}.task on task.id = step.task_id
                where step.task_id = report.task_id and step.ordinal = report.ordinal and step.fence = report.fence
                  and step.state = 'in_progress'
                  and (task.template_id <> report.template_id or step.slot <> report.slot)
            ) then 'other_step'
            else coalesce((
                select 'repeated ' || attempt.outcome from {schema}.attempt
                where attempt.task_id = report.task_id and attempt.ordinal = report.ordinal
                  and attempt.fence = report.fence), 'lost') end
        from unnest(reports) with ordinality as report (
            task_id, ordinal, fence, report, body, delay_ms, template_id, slot, chosen, inputs, index)
        order by report.index);
    backend := {schema}.finish_batch(batch_id, outcomes, channels, payloads);
    -- After the batch's own notifications: wake counts those from the first.
    perform {schema}.release_limits(
        array(select e.task_id from unnest(ended) as e), array(select e.slot from unnest(ended) as e));
    return next;
end
$$;
