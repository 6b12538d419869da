/* insert_token */
-- Stores a new token.
-- $1 id uuid  $2 hash bytea  $3 name text  $4 grants text  $5 payloads boolean  $6 created_by text
-- $7 expires_in float8, in seconds; null: never
-- Rows:  its times; none if there is a token of that name.
-- Locks: the new row.
-- Index: access_token_name_key.
insert into {schema}.access_token (id, hash, name, grants, payloads, created_by, expires_at)
values ($1, $2, $3, $4::jsonb, $5, $6, now() + make_interval(secs => $7))
on conflict (name) do nothing
returning created_at, expires_at
