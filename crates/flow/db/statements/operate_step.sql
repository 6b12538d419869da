/* operate_step */
-- Applies an operator's decision to a step: see functions/operate_step.sql. $1 batch  $2 channels  $3 payloads
-- $4 patient  $5 task  $6 slot  $7 part  $8 outcome  $9 allowed states  $10 operator  $11 reason  $12 result
-- $13 chosen steps  $14 inputs of parts  $15 limit in ms  $16 preview
select outcomes, backend
from {schema}.operate_step($1, $2, $3, $4, row(
    $5::uuid, $6::integer, $7::integer, $8::text, $9::text[], $10::text, $11::text, $12::text,
    $13::integer[], $14::text[], $15::bigint, $16::boolean
)::{schema}.step_operation)
