/* count_tagged */
-- How many of these tasks ($1) have a tag ($2), and how many of all, counted up to $3.
-- Index: the primary key; task_detail_tags.
select (
           select count(*) from unnest($1::uuid[]) as i (id)
           cross join lateral (
               select from {schema}.task_detail k where k.task_id = i.id and $2 = any (k.tags) offset 0) k
       ) as tagged,
       (
           select count(*) from (
               select from {schema}.task_detail k where k.tags @> array[$2::text] and k.tags <> '{}' limit $3) k
       ) as tagged_ever
