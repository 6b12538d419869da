/* import_write_progress */
-- Records the progress of an import. $1 source text  $2 stage text  $3 copied_through text  $4–$10 totals bigint
update {schema}.imports
set stage = $2,
    copied_through = $3,
    instances = $4,
    executions = $5,
    events = $6,
    messages = $7,
    activities = $8,
    sessions = $9,
    keys = $10,
    changed_at = now()
where source = $1
