-- Rings the channel in the trigger's first argument with the payload in its second: for statements that are not Reveille's own
-- (psql, another program). Attach it per statement, and with
--     when (coalesce(current_setting('reveille.rings', true), '') <> 'own')
-- so that it costs nothing where a function of ours, which rings by itself, carries `set reveille.rings = 'own'`.
create or replace function {schema}.ring_by_trigger() returns trigger
language plpgsql
as $$
begin
    perform pg_notify(tg_argv[0], coalesce(tg_argv[1], ''));
    return null;
end
$$;
