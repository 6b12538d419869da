/* submit_tasks */
-- Creates tasks: see functions/submit_tasks.sql. $1 batch  $2 channels  $3 payloads  $4 patient
-- A task is one element of each of $5 ids  $6 templates  $7 priorities  $8 identities  $9 limits in ms  $10 contexts
-- $11 initiators  $12 source systems  $13 reasons  $14 correlations  $15 parent correlations  $16 idempotency keys.
-- The tags of all tasks are $18; $17 says where those of each end.
select outcomes, backend
from {schema}.submit_tasks($1, $2, $3, $4, array(
    select row(
        new.id, new.template_id, new.priority, new.identity, new.limit_ms, new.context, new.initiator,
        new.source_system, new.reason, new.correlation_id, new.parent_correlation_id, new.idempotency_key,
        ($18::text[])[coalesce(($17::integer[])[new.index - 1], 0) + 1:($17::integer[])[new.index]]
    )::{schema}.new_task
    from unnest(
        $5::uuid[], $6::integer[], $7::smallint[], $8::uuid[], $9::bigint[], $10::text[], $11::text[], $12::text[],
        $13::text[], $14::text[], $15::text[], $16::text[]
    ) with ordinality as new (
        id, template_id, priority, identity, limit_ms, context, initiator, source_system, reason, correlation_id,
        parent_correlation_id, idempotency_key, index)
    order by new.index
))
