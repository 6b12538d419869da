/* import_next_activities */
-- The next activities, in the order they were scheduled. $1 after which number text  $2 or from the first on boolean  $3 how many bigint
-- Rows:  one: the first and the last of them, as text; nulls if there are no more. They are read by the program, so their bytes are bounded too.
select min(b.id)::text, max(b.id)::text
from (select r.id, sum(r.bytes) over (order by r.id) - r.bytes as before
      from (select q.id, octet_length(q.work_item) as bytes from {source}.worker_queue q
            where q.id > case when $2 then 0 else $1::text::bigint end order by q.id limit $3) r) b
where b.before < {bytes_per_read}
