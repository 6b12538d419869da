-- Notifies the channel in the trigger's first argument with the payload in its second, for statements that are not
-- Reveille's own: psql, another program. Attach it per statement, with
--     when (current_setting('search_path') <> 'reveille_own')
-- and give every function of Reveille that writes the table `set search_path = reveille_own`: such functions notify by
-- themselves. That includes the claim: a statement trigger fires for statements without rows as well, so without the
-- mark a claim would wake its own waiters for ever.
-- The mark is a search path to a schema that does not exist, because since PostgreSQL 15 only a superuser may create a
-- function that sets a custom parameter. Reveille's functions qualify every name, so they need no search path.
create or replace function {schema}.notify_by_trigger() returns trigger
language plpgsql
as $$
begin
    perform pg_notify(tg_argv[0], coalesce(tg_argv[1], ''));
    return null;
end
$$;
