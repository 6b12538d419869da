-- Creates a namespace, unless it exists, and changes the given settings, in one transaction: a listener that is
-- notified of the creation sees the final settings.
-- Null: unchanged, or as the template says. Of a retention, -1: forever.
-- Answers whether the template exists; if not, nothing was changed.
create or replace function {schema}.put_namespace(
    of_name text, of_template text, of_description text, of_mode text, of_poll_ms integer, of_fallback boolean,
    of_provider text, of_announces boolean, of_retention_s bigint, of_failed_retention_s bigint
) returns boolean
language plpgsql volatile set search_path = reveille_own
as $$
begin
    if of_template is not null
       and not exists (select from {schema}.namespace_template t where t.name = of_template) then
        return false;
    end if;
    perform {schema}.open_namespace(of_name, coalesce(of_template, 'default'), of_description, of_announces);
    perform {schema}.change_namespace(of_name, of_description, of_mode, of_poll_ms, of_fallback, of_provider,
                                      of_announces, of_retention_s, of_failed_retention_s);
    return true;
end
$$;
