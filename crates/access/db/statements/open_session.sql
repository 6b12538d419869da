/* open_session */
-- Opens a session of a user without a token of the database.
-- $1 id uuid  $2 hash bytea  $3 name text  $4 grants text (JSON)  $5 payloads boolean  $6 seconds double precision
-- Rows:  none.
-- Locks: none.
-- Index: none.
insert into {schema}.access_session (id, hash, name, grants, payloads, expires_at)
values ($1, $2, $3, $4::jsonb, $5, now() + make_interval(secs => $6))
