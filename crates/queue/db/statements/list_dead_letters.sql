/* list_dead_letters */
-- Dead letters, newest first, with their total number.
-- $1 queue text  $2 partition text  $3 consumer text  $4 from timestamptz  $5 before timestamptz  $6 ids bigint[]
-- $7 partition_id bigint  $8 transaction_id text  $9 error text: part of it, in any case
-- $10 up_to bigint: the last id; null: any
-- $11 limit bigint  $12 offset bigint  $13 bytes bigint: of the page, at least one dead letter
-- Index: dead_letter_queue, dead_letter_partition, or the primary key.
select d.*
from (select d.*, row_number() over (order by d.id desc) as nth,
             sum(octet_length(d.payload) + octet_length(d.transaction_id) + coalesce(octet_length(d.trace_id), 0)
                 + coalesce(octet_length(d.producer), 0) + coalesce(octet_length(d.error), 0)
                 + octet_length(d.queue) + octet_length(d.partition) + octet_length(d.consumer) + 400)
                     over (order by d.id desc) as upto_bytes
    from (select d.*, q.name as queue, p.name as partition, count(*) over () as found
          from {schema}.dead_letter d
          join {schema}.queue q on q.id = d.queue_id
          join {schema}.partition p on p.id = d.partition_id
          where ($1::text is null or md5(q.name) = md5($1::text) and q.name = $1::text)
            and ($2::text is null or p.name = $2::text) and ($3::text is null or d.consumer = $3::text)
            and ($4::timestamptz is null or d.failed_at >= $4::timestamptz)
                and ($5::timestamptz is null or d.failed_at < $5::timestamptz)
            and ($6::bigint[] is null or d.id = any ($6::bigint[]))
                and ($7::bigint is null or d.partition_id = $7::bigint)
            and ($8::text is null or d.transaction_id = $8::text)
            and ($9::text is null or strpos(lower(d.error), lower($9::text)) > 0)
            and ($10::bigint is null or d.id <= $10::bigint)
          order by d.id desc limit $11::bigint offset $12::bigint) d) d
where d.nth = 1 or d.upto_bytes <= $13::bigint
order by d.id desc
