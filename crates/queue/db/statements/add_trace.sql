/* add_trace */
-- Adds a trace to a message.
-- $1 partition_id bigint  $2 transaction_id text  $3 consumer text  $4 event_type text  $5 data text  $6 worker text
-- $7 names text[]: without duplicates
-- Rows:  its id; none if there is no such partition.
with added as (
    insert into {schema}.trace (partition_id, transaction_id, consumer, event_type, data, worker, names)
    select p.id, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text[] from {schema}.partition p
        where p.id = $1::bigint
    returning id
), named as (
    insert into {schema}.trace_name (name, trace_id) select n.name, a.id
        from added a cross join unnest($7::text[]) as n (name)
)
select id from added
