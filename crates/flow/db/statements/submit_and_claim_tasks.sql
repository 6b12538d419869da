/* submit_and_claim_tasks */
-- Creates tasks as submit_tasks.sql does, then claims steps as claim_steps.sql does; its arguments from $19. The claim
-- depends on the result of the submissions, so that it runs after them and sees their steps.
-- Rows: those of the claim. The last one, which has no step, has the outcomes.
-- Cost: see complete_and_claim_steps.sql.
select case when claimed.task_id is null then submitted.outcomes end as outcomes, submitted.backend, claimed.*
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
)) as submitted
cross join lateral {schema}.claim_steps(
    $19::text[], $20::text[], $21::text[], $22::bigint[], $23::bigint[], $24::bigint, $25::integer[], $26::text[],
    $27::bigint[], in_write => submitted.outcomes is not null
) as claimed
