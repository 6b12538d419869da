/* import_read_progress */
-- The progress of an import. $1 source text
-- Locks: its row, so that one process at a time continues it.
select import.stage, import.copied_through, import.instances, import.executions, import.events, import.messages,
       import.activities, import.sessions, import.keys
from {schema}.imports import
where import.source = $1
for update
