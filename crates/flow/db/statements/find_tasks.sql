/* find_tasks */
-- Tasks of a namespace ($1), in some states ($2), with a correlation ($3) or a tag ($7), newest first; null: any. Ids
-- less than $4 and not less than $5, at most $6.
-- Rows:  their ids. With a correlation or a tag, the state and the namespace are not compared.
-- Index: task_detail_correlation; task_detail_tags, which reads all tasks with the tag, so it is for rare tags: 20 of
--        1 000 000 take 25 pages; task_listed, a range for each namespace and state; otherwise the primary key
--        backwards.
(select k.task_id as id
 from {schema}.task_detail k
 where $3::text is not null and k.correlation_id = $3 and k.task_id < $4 and k.task_id >= $5
 order by k.task_id desc limit $6)
union all
(select k.task_id
 from (select k.task_id from {schema}.task_detail k where $7::text is not null and k.tags @> array[$7::text]
     and k.tags <> '{}' offset 0) k
 where $3::text is null and k.task_id < $4 and k.task_id >= $5
 order by k.task_id desc limit $6)
union all
(select t.id
 from {schema}.namespace n
 cross join unnest(coalesce($2::text[], '{open,complete,error,cancelled,resolved_manually}')) as w (state)
 cross join lateral (
     select t.id from {schema}.task t
         where t.namespace_id = n.id and t.state = w.state::{schema}.task_state and t.id < $4
         and t.id >= $5 order by t.id desc limit $6
 ) t
 where $3::text is null and $7::text is null and ($1::text is not null or $2::text[] is not null)
     and ($1::text is null or n.name = $1)
 order by t.id desc limit $6)
union all
(select t.id
 from {schema}.task t
 where $3::text is null and $7::text is null and $1::text is null and $2::text[] is null and t.id < $4 and t.id >= $5
 order by t.id desc limit $6)
