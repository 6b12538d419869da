/* import_target */
-- What is there of the target. $1 schema text
-- Rows:  one: whether it has the tables that instances may be in, whether anything was ever imported into it, and whether it is duroxide-pg's.
select count(*) filter (where t.tablename in ('instances', 'executions', 'orchestrator_queue')) = 3,
       count(*) filter (where t.tablename = 'imports') > 0,
       count(*) filter (where t.tablename = '_duroxide_migrations') > 0
from pg_tables t where t.schemaname = $1
