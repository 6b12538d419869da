/* list_tokens */
-- A page of tokens by name.
-- $1 after text, the last name of the page before; null: from the first  $2 limit bigint
-- Rows:  all but the hash.
-- Locks: none.
-- Index: access_token_name_key.
select t.id, t.name, t.grants::text, t.payloads, t.created_at, t.created_by, t.expires_at, t.last_used_at,
    coalesce(t.expires_at <= now(), false)
from {schema}.access_token t
where t.name > coalesce($1, '')
order by t.name
limit $2
