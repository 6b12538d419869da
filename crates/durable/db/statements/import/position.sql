/* import_position */
-- Where an import stands. $1 source text
-- Locks: its row, so that it is continued once.
select i.stage, i.through, i.instances, i.executions, i.events, i.messages, i.activities, i.sessions, i.keys
from {schema}.imports i where i.source = $1 for update
