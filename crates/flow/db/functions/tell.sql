-- Tells who wants to know how steps have ended: the domain events that their definitions name, and the list of what has
-- to be looked into, where all attempts were used up, a failure was not
-- to be tried again, or a part of a batch was given up on.
-- verdicts: c: done, e: failed for good, p: failed, and the rest goes on; others are not over. verbs: what was said.
-- bodies: the result, or the error.
create or replace function {schema}.tell(tasks uuid[], ordinals integer[], slots integer[], verdicts text[], verbs text[], bodies text[]) returns void
language plpgsql volatile set search_path = reveille_own
as $$
declare
    of_tasks   uuid[];
    of_steps   integer[];
    of_reasons text[];
begin
    insert into {schema}.domain_event (task_id, ordinal, name, succeeded, payload)
    select n.task_id, n.ordinal, e.name, n.verdict = 'c', n.body
    from unnest(tasks, ordinals, slots, verdicts, bodies) with ordinality as n (task_id, ordinal, slot, verdict, body, place)
    join {schema}.task t on t.id = n.task_id
    cross join lateral (select d.* from {schema}.definition d where d.template_id = t.template_id and d.ordinal = n.slot offset 0) d
    cross join unnest(case n.verdict when 'c' then d.success_events else d.failure_events end) with ordinality as e (name, place)
    where n.verdict in ('c', 'e', 'p')
    order by n.place, e.place;

    select array_agg(n.task_id), array_agg(n.ordinal), array_agg(case when n.verdict = 'p' then 'part_failed' when n.verb = 'F' then 'not_retryable' else 'retries_exhausted' end) into of_tasks, of_steps, of_reasons
    from unnest(tasks, ordinals, slots, verdicts, verbs) as n (task_id, ordinal, slot, verdict, verb)
    join {schema}.task t on t.id = n.task_id
    cross join lateral (select d.* from {schema}.definition d where d.template_id = t.template_id and d.ordinal = n.slot offset 0) d
    where n.verdict = 'e' or n.verdict = 'p' and d.failure_strategy = 'i';
    if of_tasks is not null then
        perform {schema}.investigate(of_tasks, of_steps, of_reasons);
    end if;
end
$$;
