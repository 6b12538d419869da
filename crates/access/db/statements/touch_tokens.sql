/* touch_tokens */
-- Records that tokens and sessions were used.
-- $1 ids uuid[]
-- Rows:  none.
-- Locks: their rows, skip locked: another server records the same.
-- Index: access_token_pkey, access_session_pkey.
with tokens as (
    update {schema}.access_token t
    set last_used_at = now()
    where t.id in (
        select u.id
        from {schema}.access_token u
        where u.id = any($1)
        for update skip locked
    )
)
update {schema}.access_session s
set last_used_at = now()
where s.id in (
    select u.id
    from {schema}.access_session u
    where u.id = any($1)
    for update skip locked
)
