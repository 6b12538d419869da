/* take_dead_letters */
-- Locks dead letters to replay them, oldest first: their ids and the bytes of their payloads.
-- $1 to $10 as in list_dead_letters  $11 after bigint: the last id of the step before  $12 limit bigint
-- Locks: the rows, skip locked: another replay has the locked ones.
select d.id, octet_length(d.payload)::bigint
from {schema}.dead_letter d
join {schema}.queue q on q.id = d.queue_id
join {schema}.partition p on p.id = d.partition_id
where ($1::text is null or md5(q.name) = md5($1::text) and q.name = $1::text)
  and ($2::text is null or p.name = $2::text) and ($3::text is null or d.consumer = $3::text)
  and ($4::timestamptz is null or d.failed_at >= $4::timestamptz)
      and ($5::timestamptz is null or d.failed_at < $5::timestamptz)
  and ($6::bigint[] is null or d.id = any ($6::bigint[])) and ($7::bigint is null or d.partition_id = $7::bigint)
  and ($8::text is null or d.transaction_id = $8::text)
  and ($9::text is null or strpos(lower(d.error), lower($9::text)) > 0)
  and ($10::bigint is null or d.id <= $10::bigint)
  and d.id > $11::bigint
order by d.id limit $12::bigint
for update of d skip locked
