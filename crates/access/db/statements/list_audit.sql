/* list_audit */
-- A page of the audit, newest first.
-- $1 before bigint: rows below this id; null: from the newest  $2 actor text, $3 action text: null: any
-- $4 target text: null: any  $5 limit bigint
-- Rows:  all columns.
-- Locks: none.
-- Index: audit_pkey, backwards; at most 10 000 rows are read.
select r.id, r.at, r.actor, r.credentials, r.action, r.target, r.detail::text, r.request_id
from (
    select a.id, a.at, a.actor, a.credentials, a.action, a.target, a.detail, a.request_id
    from {schema}.audit a
    where $1::bigint is null or a.id < $1
    order by a.id desc
    limit 10000
) r
where ($2::text is null or r.actor = $2)
    and ($3::text is null or r.action = $3)
    and ($4::text is null or r.target = $4)
order by r.id desc
limit $5
