/* import_lock */
-- Nobody writes to the source while it is read, and nobody else imports from it. Readers are not disturbed.
lock table {source}.instance_locks, {source}.orchestrator_queue, {source}.worker_queue, {source}.sessions, {source}.instances,
    {source}.executions, {source}.history, {source}.kv_store, {source}.kv_delta in share row exclusive mode
