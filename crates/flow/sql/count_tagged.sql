/* count_tagged */
-- How many of these tasks ($1) have a tag ($2).
-- Index: the primary key.
select count(*)
from unnest($1::uuid[]) as i (id)
cross join lateral (select from {schema}.task_detail k where k.task_id = i.id and $2 = any (k.tags) offset 0) k
