/* list_queues */
-- Queues with what they hold. $1 name text, null: any  $2 search text, null: any; part of the name, whatever its case
-- $3 limit bigint  $4 offset bigint
-- Rows:  in order of their names; with how many there are in all.
-- Index: see functions/message_counts.sql.
select q.*, c.*
from (select q.*, count(*) over () as found from {schema}.queue q
      where ($1::text is null or md5(q.name) = md5($1::text) and q.name = $1::text)
        and ($2::text is null or strpos(lower(q.name), lower($2::text)) > 0)
      order by q.name limit $3::bigint offset $4::bigint) q
cross join lateral {schema}.message_counts(q.id) c
order by q.name
