-- Makes a namespace as its template says, or as they are without one, unless it is there; and tells everybody that there is one more.
-- Answers whether it was made.
create or replace function {schema}.open_namespace(of_name text, of_template text) returns boolean
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_column
declare
    made record;
begin
    if exists (select from {schema}.namespace n where n.name = of_name) then
        return false;
    end if;
    insert into {schema}.namespace (name, mode, poll_ms, fallback, provider, announces)
    select of_name, coalesce(t.mode, 'e'), coalesce(t.poll_ms, 1000), coalesce(t.fallback, true), coalesce(t.provider, 't'), coalesce(t.announces, false)
    from (select) as one left join {schema}.namespace_template t on t.name = of_template
    on conflict do nothing
    returning id, name, description, created_at, announces into made;
    if made.id is null then
        return false;
    end if;
    perform {schema}.ring(array[{namespaces}], array['']);
    if made.announces and pg_notification_queue_usage() < 0.9 then
        perform pg_notify({created}, json_build_object(
            'namespace_id', made.id, 'namespace_name', left(made.name, 1000), 'description', made.description, 'created_at', made.created_at, 'triggered_by', 'namespace_creation')::text);
    end if;
    return true;
end
$$;
