-- Creates a namespace with the settings of its template, or the defaults without one, unless it exists; and notifies.
-- of_description, of_announces: used instead; null: as the template says.
-- Answers whether it was created.
create or replace function {schema}.open_namespace(
    of_name text, of_template text, of_description text, of_announces boolean
) returns boolean
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_column
declare
    created record;
begin
    if exists (select from {schema}.namespace n where n.name = of_name) then
        return false;
    end if;
    insert into {schema}.namespace (
        name, description, mode, poll_ms, fallback, provider, announces, retention_s, failed_retention_s)
    select of_name, coalesce(of_description, ''), coalesce(t.mode, 'event_driven'), coalesce(t.poll_ms, 1000),
           coalesce(t.fallback, true), coalesce(t.provider, 'table'), coalesce(of_announces, t.announces, false),
           case when t.name is null then 2592000 else t.retention_s end,
           case when t.name is null then 7776000 else t.failed_retention_s end
    from (select) as one
    left join {schema}.namespace_template t on t.name = of_template
    on conflict do nothing
    returning id, name, description, created_at, announces into created;
    if created.id is null then
        return false;
    end if;
    perform {schema}.notify(array[{namespaces}], array['']);
    if created.announces and pg_notification_queue_usage() < 0.9 then
        perform pg_notify({created}, json_build_object(
            'namespace_id', created.id, 'namespace_name', left(created.name, 1000),
            'description', left(created.description, 1000), 'created_at', created.created_at,
            'triggered_by', 'namespace_creation')::text);
    end if;
    return true;
end
$$;
