/* trace_names */
-- The names of traces, the latest first.
-- $1 search text: part of the name, case-insensitive  $2 from timestamptz  $3 before timestamptz; null: any
-- $4 limit bigint  $5 offset bigint
-- Reads all of trace_name.
select n.name, count(*) as traces, count(distinct (t.partition_id, t.transaction_id)) as messages, min(t.created_at)
    as first_at, max(t.created_at) as last_at, count(*) over () as found
from {schema}.trace_name n
join {schema}.trace t on t.id = n.trace_id
where ($1::text is null or strpos(lower(n.name), lower($1::text)) > 0)
  and ($2::timestamptz is null or t.created_at >= $2::timestamptz)
      and ($3::timestamptz is null or t.created_at < $3::timestamptz)
group by n.name
order by max(t.id) desc limit $4::bigint offset $5::bigint
