/* record_audit */
-- Writes a row of the audit, and deletes up to ten of the oldest rows that are older than a year.
-- $1 actor text  $2 credentials text  $3 action text  $4 target text  $5 detail text, JSON or null  $6 request_id text
-- Rows:  none.
-- Locks: the new row, and the deleted ones, skip locked.
-- Index: audit_pkey.
with outdated as (
    select a.id
    from (select o.id, o.at from {schema}.audit o order by o.id limit 10 for update skip locked) a
    where a.at < now() - interval '365 days'
), deleted as (
    delete from {schema}.audit a
    using outdated o
    where a.id = o.id
)
insert into {schema}.audit (actor, credentials, action, target, detail, request_id)
values ($1, $2, $3, $4, $5::jsonb, $6)
