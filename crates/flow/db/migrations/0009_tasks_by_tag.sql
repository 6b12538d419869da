-- Tasks are listed by tag. Written at once: what waits to be written into such an index is read by everybody who looks.
create index task_detail_tags on {schema}.task_detail using gin (tags) with (fastupdate = off) where tags <> '{}';
