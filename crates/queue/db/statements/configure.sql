/* configure */
-- See functions/configure.sql; with the names of the consumer groups. $1 queue text  $2 namespace text  $3 task text
-- $4 own_namespace text  $5 own_task text  $6 lease_seconds integer
-- $7 retry_limit integer  $8 retry_delay_ms integer  $9 max_size bigint  $10 ttl_seconds integer  $11 dead_letter_queue
-- boolean  $12 dlq_after_max_retries boolean  $13 priority integer
-- $14 delayed_processing_seconds integer  $15 window_buffer_seconds integer  $16 retention_seconds integer  $17
-- completed_retention_seconds integer  $18 retention_enabled boolean
-- $19 encryption_enabled boolean  $20 max_wait_time_seconds integer  $21 charge_expired_leases boolean
-- $22 consumed_retention_seconds integer
select q.*, array(select k.name from {schema}.consumer k where k.queue_id = q.id) as groups
from {schema}.configure($1::text, $2::text, $3::text, $4::text, $5::text, $6::integer, $7::integer, $8::integer, $9::bigint, $10::integer, $11::boolean, $12::boolean,
                        $13::integer, $14::integer, $15::integer, $16::integer, $17::integer, $18::boolean, $19::boolean, $20::integer, $21::boolean, $22::integer) q
