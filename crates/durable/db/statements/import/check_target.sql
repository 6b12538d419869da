/* import_check_target */
-- Which tables the target has. $1 schema text
-- Rows:  one: whether it has the tables that contain instances, whether it has imported before, and whether it is a
--        schema of duroxide-pg.
select count(*) filter (where existing.tablename in ('instances', 'executions', 'orchestrator_queue')) = 3,
       count(*) filter (where existing.tablename = 'imports') > 0,
       count(*) filter (where existing.tablename = '_duroxide_migrations') > 0
from pg_tables existing
where existing.schemaname = $1
