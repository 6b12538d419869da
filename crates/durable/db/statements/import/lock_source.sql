/* import_lock_source */
-- Blocks writes to the source, and other imports from it, until the end of the transaction. Reads are not blocked.
lock table
    {source}.instance_locks,
    {source}.orchestrator_queue,
    {source}.worker_queue,
    {source}.sessions,
    {source}.instances,
    {source}.executions,
    {source}.history,
    {source}.kv_store,
    {source}.kv_delta
in share row exclusive mode
