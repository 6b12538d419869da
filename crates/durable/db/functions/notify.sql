-- Notifies about rows that psql or another program inserts or delays. The functions of this schema notify themselves;
-- they run with the search_path `reveille_own`, by which these triggers recognize them.
create or replace trigger trg_orch_notify after insert or update of visible_at on {schema}.orchestrator_queue
    for each statement when (current_setting('search_path') <> 'reveille_own')
    execute function {schema}.notify_by_trigger({orch_channel}, '0');
create or replace trigger trg_worker_notify after insert or update of visible_at on {schema}.worker_queue
    for each statement when (current_setting('search_path') <> 'reveille_own')
    execute function {schema}.notify_by_trigger({worker_channel}, '');
