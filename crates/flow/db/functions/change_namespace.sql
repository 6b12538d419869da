-- Changes the given settings of a namespace, and notifies. Null: unchanged. Of a retention, -1: forever. Messages that
-- were sent through the former provider are void: their steps are due at once.
-- Locks: the namespace; a transaction that publishes its steps is waited for. Then the steps that were sent, if the
--        provider changes.
-- Cost:  if the provider changes, the steps of the namespace that are due or leased, once.
create or replace function {schema}.change_namespace(
    of_name text, of_description text, of_mode text, of_poll_ms integer, of_fallback boolean, of_provider text,
    of_announces boolean, of_retention_s bigint, of_failed_retention_s bigint
) returns void
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_column
declare
    before record;
begin
    select n.id, n.provider into before from {schema}.namespace n where n.name = of_name for no key update;
    update {schema}.namespace n
    set description = coalesce(of_description, n.description),
        mode = coalesce(of_mode::{schema}.claim_mode, n.mode),
        poll_ms = coalesce(of_poll_ms, n.poll_ms),
        fallback = coalesce(of_fallback, n.fallback),
        provider = coalesce(of_provider::{schema}.queue_provider, n.provider),
        announces = coalesce(of_announces, n.announces),
        retention_s = nullif(coalesce(of_retention_s, n.retention_s), -1),
        failed_retention_s = nullif(coalesce(of_failed_retention_s, n.failed_retention_s), -1),
        version = n.version + 1
    where n.id = before.id;
    if of_provider::{schema}.queue_provider <> before.provider then
        perform from {schema}.step s
        where s.queue_id >= before.id::bigint << 40 and s.queue_id < before.id + 1::bigint << 40
          and s.due_at < 'infinity' and s.published is not null and s.state = 'ready'
        order by s.task_id, s.ordinal for update;
        update {schema}.step s
        set due_at = now(), published = null
        where s.queue_id >= before.id::bigint << 40 and s.queue_id < before.id + 1::bigint << 40
          and s.due_at < 'infinity' and s.published is not null and s.state = 'ready';
        perform {schema}.notify(array[{channel}], array['']);
    end if;
    perform {schema}.notify(array[{namespaces}], array['']);
end
$$;
