/* enqueue_in_transaction */
-- Sends messages inside the caller's transaction, which notifies exactly if it commits. $1 channels text[]
-- $2 payloads text[]  $3 instances text[]  $4 delays_ms bigint[]  $5 work items text[]
select {schema}.enqueue(row($3, $4, $5)::{schema}.orchestration_messages),
       {schema}.notify($1::text[], $2::text[])
