-- Writes the domain events of steps that have ended, as their definitions ask, and opens an investigation where a step
-- failed permanently or a part of an isolating batch did.
create or replace function {schema}.publish_events(ended {schema}.ended_step[]) returns void
language plpgsql volatile set search_path = reveille_own
as $$
declare
    failed_tasks    uuid[];
    failed_ordinals integer[];
    reasons         text[];
begin
    insert into {schema}.domain_event (task_id, ordinal, name, succeeded, payload)
    select e.task_id, e.ordinal, event.name, e.verdict = 'complete', e.body
    from unnest(ended) as e
    cross join lateral (
        select d.success_events, d.failure_events from {schema}.definition d
        where d.template_id = e.template_id and d.ordinal = e.slot
        offset 0
    ) definition
    cross join unnest(case e.verdict when 'complete' then definition.success_events
        else definition.failure_events end) with ordinality as event (name, index)
    where e.verdict in ('complete', 'failed', 'part_failed')
    order by e.task_id, e.ordinal, event.index;

    select array_agg(e.task_id), array_agg(e.ordinal), array_agg(case
               when e.verdict = 'part_failed' then 'part_failed'
               when e.not_retryable then 'not_retryable'
               else 'retries_exhausted' end)
    into failed_tasks, failed_ordinals, reasons
    from unnest(ended) as e
    cross join lateral (
        select d.failure_strategy from {schema}.definition d
        where d.template_id = e.template_id and d.ordinal = e.slot
        offset 0
    ) definition
    where e.verdict = 'failed' or e.verdict = 'part_failed' and definition.failure_strategy = 'isolate';
    if failed_tasks is not null then
        perform {schema}.investigate(failed_tasks, failed_ordinals, reasons);
    end if;
end
$$;
