/* import_target */
-- What is there of the target. $1 schema text
-- Rows:  one: whether it has the tables that instances may be in, and whether anything was ever imported into it.
select (select count(*) = 4 from pg_tables t
        where t.schemaname = $1 and t.tablename = any (array['instances', 'executions', 'orchestrator_queue', 'worker_queue'])),
       exists (select from pg_tables t where t.schemaname = $1 and t.tablename = 'imports')
