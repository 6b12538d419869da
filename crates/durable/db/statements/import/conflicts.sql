/* import_conflicts */
-- Instances that both the target and the source have. $1 after this instance text  $2 or from it on boolean
-- Rows:  one: how many, and the first.
-- Index: those of the source by instance. Names are compared as the source stores them: the target escapes U+0001.
with existing as materialized (
    select distinct replace(target.instance_id, chr(1) || '1', chr(1)) as name
    from (
        select instance.instance_id from {schema}.instances instance
        union all
        select execution.instance_id from {schema}.executions execution
        union all
        select message.instance_id from {schema}.orchestrator_queue message
    ) as target
)
select count(*), min(existing.name)
from existing
where (existing.name > $1 or existing.name = $1 and $2)
  and (exists (select from {source}.instances instance where instance.instance_id = existing.name)
       or exists (select from {source}.executions execution where execution.instance_id = existing.name)
       or exists (select from {source}.orchestrator_queue message where message.instance_id = existing.name))
