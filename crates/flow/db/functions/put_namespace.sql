-- Makes a namespace, unless it is there, and changes what is given, in one transaction: a listener that hears that it
-- was made
-- sees it as it was wanted.
-- Null: it stays, or is as the template says. Of a retention, -1: for ever.
-- Answers whether there is such a template; if there is not, nothing was done.
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
