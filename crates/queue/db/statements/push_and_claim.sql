/* push_and_claim */
-- Pushes as push.sql does, then claims as claim.sql does; its arguments from $17. The claim depends on the result of
-- the push, so that it runs after it and sees its messages. Rows: those of both, with nulls for the columns of the
-- other.
with pushed as materialized (
    select *
    from {schema}.push(
        $1::uuid, $2::text[], $3::text[], $4::boolean,
        $5::bigint[], $6::bigint[], $7::integer[], $8::integer[],
        $9::integer[],
        $10::uuid[], $11::text[], $12::bigint[], $13::bytea[], $14::text[],
        $15::text[], $16::boolean)
    where $16::boolean or not (select m.enabled from {schema}.maintenance m where m.name = 'push')
)
select pushed.*, claimed.*
from pushed
full join (
    select claimed.*
    from (select count(*) as partitions from pushed) as written
    cross join lateral {schema}.claim(
        $17::text, $18::text, $19::text,
        $20::text, $21::timestamptz, $22::bigint,
        $23::uuid[], $24::bigint[], $25::integer[], $26::integer[],
        $27::integer, $28::bigint, in_write => written.partitions >= 0
    ) as claimed
) as claimed on false
