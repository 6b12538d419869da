-- Rings the channel in the trigger's first argument with the payload in its second, for statements that are not Reveille's own:
-- psql, another program. Attach it per statement, with
--     when (current_setting('search_path') <> 'reveille_own')
-- and let every function of ours that writes the table carry `set search_path = reveille_own`: such functions ring by themselves. That
-- includes the claim. A trigger per statement fires for statements without rows as well, so a claim that is not marked
-- would ring its own waiters for ever.
-- The mark is a search path to a schema that does not exist, because since PostgreSQL 15 only a superuser may create a function
-- that sets a parameter of its own making. Our functions name every schema, so they need no search path.
create or replace function {schema}.notify_by_trigger() returns trigger
language plpgsql
as $$
begin
    perform pg_notify(tg_argv[0], coalesce(tg_argv[1], ''));
    return null;
end
$$;
