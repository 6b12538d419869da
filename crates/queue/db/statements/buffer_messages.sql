/* buffer_messages */
-- See functions/buffer_messages.sql.
-- $1 queue text  $2 partition text  $3 encrypted boolean
-- $4 ids uuid[]  $5 transaction_ids text[]  $6 trace_ids text[]  $7 producers text[]  $8 bodies bytea[]
select {schema}.buffer_messages(
    $1::text, $2::text, $3::boolean,
    $4::uuid[], $5::text[], $6::text[], $7::text[], $8::bytea[])
