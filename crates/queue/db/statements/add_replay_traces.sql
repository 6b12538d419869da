/* add_replay_traces */
-- Notes where replayed messages come from: a trace each.
-- $1 partition_ids bigint[]  $2 transaction_ids text[]  $3 consumers text[]  $4 data text[]: one element per message
insert into {schema}.trace (partition_id, transaction_id, consumer, event_type, data, names)
select origin.partition_id, origin.transaction_id, origin.consumer, 'replayed', origin.data, array[]::text[]
from unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) as origin (partition_id, transaction_id, consumer, data)
join {schema}.partition p on p.id = origin.partition_id
