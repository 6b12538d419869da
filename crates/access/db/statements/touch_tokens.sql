/* touch_tokens */
-- Records that tokens were used.
-- $1 ids uuid[]
-- Rows:  none.
-- Locks: their rows, skip locked: another server records the same.
-- Index: access_token_pkey.
update {schema}.access_token t
set last_used_at = now()
where t.id in (
    select u.id
    from {schema}.access_token u
    where u.id = any($1)
    for update skip locked
)
