/* configure */
-- See functions/configure.sql; with the names of the consumer groups.
-- $1 to $20 are the columns of the table queue from `name` to `charge_expired_leases`, in their order.
-- $21 default_namespace text  $22 default_task text
select q.*, array(select k.name from {schema}.consumer k where k.queue_id = q.id) as groups
from {schema}.configure(
    row(
        null, $1::text, $2::text, $3::text,
        $4::integer, $5::integer, $6::integer, $7::bigint, $8::integer,
        $9::boolean, $10::boolean, $11::integer, $12::integer, $13::integer,
        $14::integer, $15::integer, $16::boolean, $17::integer, $18::boolean, $19::integer, $20::boolean,
        null, null, null
    )::{schema}.queue,
    $21::text, $22::text) q
