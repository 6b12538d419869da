/* import_count */
-- How much the source holds. Reads it whole.
-- Rows:  one: instances, executions, events, messages, activities, sessions, keys; and activities that do not say whose they are.
select (select count(*) from {source}.instances),
       (select count(*) from {source}.executions),
       (select count(*) from {source}.history),
       (select count(*) from {source}.orchestrator_queue),
       (select count(*) from {source}.worker_queue),
       (select count(*) from {source}.sessions),
       (select count(*) from {source}.kv_store) + (select count(*) from {source}.kv_delta),
       (select count(*) from {source}.worker_queue q
        where q.instance_id is null or q.execution_id is null or q.activity_id is null)
