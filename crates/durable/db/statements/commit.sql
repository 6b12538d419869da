/* ack_orchestration_item, ack_work_item, enqueue_for_orchestrator */
-- Commits finished turns, finished activities and messages together: see functions/commit.sql. $1–$4 the batch; then
-- one array per column, put together here to the rows that the function takes: see migrations/0003_write_types.sql.
select * from {schema}.commit(
    batch_id => $1::uuid,
    channels => $2::text[],
    payloads => $3::text[],
    patient => $4::boolean,
    turns => array(
        select row(turn.*)::{schema}.finished_turn
        from unnest(
            $5::text[], $6::uuid[], $7::boolean[], $8::bigint[], $9::bigint[], $10::text[], $11::text[], $12::text[],
            $13::bigint[], $14::text[], $15::text[], $16::boolean[], $17::text[], $18::boolean[]
        ) as turn
    ),
    events => array(
        select row(events.*)::{schema}.turn_events
        from unnest(
            $19::int[], $20::text[], $21::bigint[], $22::bigint[], $23::bigint[], $24::int[], $25::text[]
        ) as events
    ),
    activities => array(
        select row(activity.*)::{schema}.turn_activity
        from unnest(
            $26::int[], $27::text[], $28::bigint[], $29::bigint[], $30::text[], $31::text[], $32::text[]
        ) as activity
    ),
    cancellations => array(
        select row(cancellation.*)::{schema}.turn_cancellation
        from unnest($33::int[], $34::text[], $35::bigint[], $36::bigint[]) as cancellation
    ),
    turn_messages => array(
        select row(message.*)::{schema}.turn_message
        from unnest($37::int[], $38::text[], $39::bigint[], $40::text[]) as message
    ),
    key_changes => array(
        select row(change.*)::{schema}.turn_key_change
        from unnest($41::int[], $42::text[], $43::text[], $44::text[], $45::bigint[]) as change
    ),
    finished_activities => array(
        select row(activity.*)::{schema}.finished_activity
        from unnest($46::text[], $47::bigint[], $48::uuid[], $49::boolean[], $50::text[], $51::text[]) as activity
    ),
    messages => array(
        select row(message.*)::{schema}.orchestration_message
        from unnest($52::text[], $53::bigint[], $54::text[]) as message
    )
)
