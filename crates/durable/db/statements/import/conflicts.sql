/* import_conflicts */
-- Instances of the target that the source has as well. $1 after which instance text  $2 or from it on boolean
-- Rows:  one: how many, and the first.
-- Index: the source's, by instance. Names are compared as the source writes them: the target escapes U+0001.
with taken as materialized (
    select distinct replace(t.instance_id, chr(1) || '1', chr(1)) as name
    from (select i.instance_id from {schema}.instances i
          union all
          select e.instance_id from {schema}.executions e
          union all
          select q.instance_id from {schema}.orchestrator_queue q) t
)
select count(*), min(t.name) from taken t
where (t.name > $1 or t.name = $1 and $2)
  and (exists (select from {source}.instances i where i.instance_id = t.name)
       or exists (select from {source}.executions e where e.instance_id = t.name)
       or exists (select from {source}.orchestrator_queue q where q.instance_id = t.name))
