/* import_count_source */
-- Counts everything in the source. Reads it whole.
-- Rows:  one: instances, executions, events, messages, activities, sessions, keys.
select (select count(*) from {source}.instances),
       (select count(*) from {source}.executions),
       (select count(*) from {source}.history),
       (select count(*) from {source}.orchestrator_queue),
       (select count(*) from {source}.worker_queue),
       (select count(*) from {source}.sessions),
       (select count(*) from {source}.kv_store) + (select count(*) from {source}.kv_delta)
