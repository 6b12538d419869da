-- Changes what is given of a namespace, and tells everybody. Null: it stays. Of a retention, -1: for ever. What was
-- sent through a provider that it no longer has is due at once.
-- Locks: the namespace; whoever is sending its steps is waited for, and seen. Then the steps that were sent, if the
--        provider is another one.
-- Cost:  of another provider, the steps of the namespace that are due or leased, once.
create or replace function {schema}.change_namespace(
    of_name text, of_description text, of_mode text, of_poll_ms integer, of_fallback boolean, of_provider text, of_announces boolean,
    of_retention_s bigint, of_failed_retention_s bigint
) returns void
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_column
declare
    mine record;
begin
    select n.id, n.provider into mine from {schema}.namespace n where n.name = of_name for no key update;
    update {schema}.namespace n
    set description = coalesce(of_description, n.description), mode = coalesce(of_mode::"char", n.mode), poll_ms = coalesce(of_poll_ms, n.poll_ms), fallback = coalesce(of_fallback, n.fallback),
        provider = coalesce(of_provider::"char", n.provider), announces = coalesce(of_announces, n.announces),
        retention_s = nullif(coalesce(of_retention_s, n.retention_s), -1), failed_retention_s = nullif(coalesce(of_failed_retention_s, n.failed_retention_s), -1),
        version = n.version + 1
    where n.id = mine.id;
    if of_provider::"char" <> mine.provider then
        perform from {schema}.step s
        where s.lane_id >= mine.id::bigint << 40 and s.lane_id < mine.id + 1::bigint << 40 and s.due_at < 'infinity'
            and s.published is not null and s.state = 'r'
        order by s.task_id, s.ordinal for update;
        update {schema}.step s set due_at = now(), published = null
        where s.lane_id >= mine.id::bigint << 40 and s.lane_id < mine.id + 1::bigint << 40 and s.due_at < 'infinity'
            and s.published is not null and s.state = 'r';
        perform {schema}.notify(array[{channel}], array['']);
    end if;
    perform {schema}.notify(array[{namespaces}], array['']);
end
$$;
