/* import_advance */
-- An import has come further. $1 source text  $2 stage text  $3 through text  $4–$10 how much of everything, in all bigint
update {schema}.imports
set stage = $2, through = $3, instances = $4, executions = $5, events = $6, messages = $7, activities = $8, sessions = $9, keys = $10,
    changed_at = now()
where source = $1
