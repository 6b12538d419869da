/* commit, fetch_work_item */
-- Commits as commit.sql does, then claims as claim_work.sql does; its arguments from $51. The claim depends on the
-- result of the commit, so that it runs after it and sees what was written. Rows: that of the commit, then those of the
-- claim, with nulls for the columns of the other.
with committed as materialized (
    select *
    from {schema}.commit(
        batch_id => $1::uuid,
        channels => $2::text[],
        payloads => $3::text[],
        patient => $4::boolean,
        turns => row(
            $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21
        )::{schema}.finished_turns,
        activities => row($22, $23, $24, $25, $26, $27, $28)::{schema}.turn_activities,
        cancellations => row($29, $30, $31, $32)::{schema}.turn_cancellations,
        turn_messages => row($33, $34, $35, $36)::{schema}.turn_messages,
        key_changes => row($37, $38, $39, $40, $41)::{schema}.turn_key_changes,
        finished_activities => row($42, $43, $44, $45, $46, $47)::{schema}.finished_activities,
        messages => row($48, $49, $50)::{schema}.orchestration_messages
    )
)
select committed.*, claimed.*
from committed
full join (
    select claimed.*
    from committed
    cross join lateral {schema}.claim_work(
        $51::text[], $52::bigint, $53::uuid[], $54::text[], $55::bigint[], $56::bigint,
        in_write => committed.backend is not null
    ) as claimed
) as claimed on false
