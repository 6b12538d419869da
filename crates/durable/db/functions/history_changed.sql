-- History is append-only. If rows are updated or deleted all the same, by psql or by pruning, processes that have
-- cached the history must notice: the generation of those instances changes in the same transaction.
create or replace function {schema}.history_changed() returns trigger
language plpgsql
set search_path = reveille_own
as $$
begin
    if tg_op = 'TRUNCATE' then
        update {schema}.instances set generation = nextval('{schema}.generation');
    else
        update {schema}.instances instance set generation = nextval('{schema}.generation')
        where instance.instance_id in (select changed.instance_id from changed);
    end if;
    return null;
end
$$;
create or replace trigger history_updated after update on {schema}.history
    referencing old table as changed for each statement execute function {schema}.history_changed();
create or replace trigger history_deleted after delete on {schema}.history
    referencing old table as changed for each statement execute function {schema}.history_changed();
create or replace trigger history_truncated after truncate on {schema}.history
    for each statement execute function {schema}.history_changed();
