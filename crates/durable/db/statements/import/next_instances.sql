/* import_next_instances */
-- The next instances. $1 after which text  $2 or from it on boolean  $3 how many bigint
-- Rows:  one: the first and the last of them; nulls if there are no more. All that is theirs lies in between, by name.
-- Index: the source's primary keys.
select min(b.instance_id), max(b.instance_id)
from (select u.instance_id
      from ((select i.instance_id from {source}.instances i
             where i.instance_id >= $1 and (i.instance_id > $1 or $2) order by i.instance_id limit $3)
            union
            (select distinct e.instance_id from {source}.executions e
             where e.instance_id >= $1 and (e.instance_id > $1 or $2) order by e.instance_id limit $3)) u
      order by u.instance_id limit $3) b
