/* message_readers */
-- The status of a message for each consumer group. $1 partition_id bigint  $2 message_offset bigint
-- Index: primary key of cursor.
select k.name, case when c.position > $2::bigint then 'completed'
                    when c.lease_id is not null and c.due_at > now()
                        and c.lease_end > $2::bigint then 'processing' else 'pending' end as status,
       case when c.lease_id is not null and c.due_at > now() and c.position <= $2::bigint
           and c.lease_end > $2::bigint then c.due_at end as leased_until,
       case when c.position = $2::bigint then c.retries else 0 end as retries
from {schema}.cursor c join {schema}.consumer k on k.id = c.consumer_id
where c.partition_id = $1::bigint
order by k.name
