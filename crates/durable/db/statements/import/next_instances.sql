/* import_next_instances */
-- The next batch of instances. $1 after this one text  $2 or from it on boolean  $3 at most bigint
-- Rows:  one: the first and the last of them; nulls if there are no more. Everything that belongs to them is in this
--        range of names.
-- Index: primary keys of the source.
select min(batch.instance_id), max(batch.instance_id)
from (
    select named.instance_id
    from (
        (
            select instance.instance_id from {source}.instances instance
            where instance.instance_id >= $1 and (instance.instance_id > $1 or $2)
            order by instance.instance_id
            limit $3
        )
        union
        (
            select distinct execution.instance_id from {source}.executions execution
            where execution.instance_id >= $1 and (execution.instance_id > $1 or $2)
            order by execution.instance_id
            limit $3
        )
    ) as named
    order by named.instance_id
    limit $3
) as batch
