/* prune_sessions */
-- Deletes sessions that have ended.
-- $1 seconds after which an unused one ends double precision  $2 limit bigint
-- Rows:  none.
-- Locks: the deleted rows, skip locked.
-- Index: access_session_pkey.
delete from {schema}.access_session s
where s.id in (
    select e.id
    from {schema}.access_session e
    where e.expires_at <= now()
        or e.last_used_at <= now() - make_interval(secs => $1)
    limit $2
    for update skip locked
)
