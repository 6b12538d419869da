/* list_queues */
-- Queues with the number of their messages.
-- $1 name text, null: any  $2 search text: part of the name, case-insensitive; null: any
-- $3 limit bigint  $4 offset bigint
-- Rows:  in order of their names; with the total number of queues.
-- Index: see functions/message_counts.sql.
select q.*, c.*
from (select q.*, count(*) over () as found from {schema}.queue q
      where ($1::text is null or md5(q.name) = md5($1::text) and q.name = $1::text)
        and ($2::text is null or strpos(lower(q.name), lower($2::text)) > 0)
      order by q.name limit $3::bigint offset $4::bigint) q
cross join lateral {schema}.message_counts(q.id) c
order by q.name
