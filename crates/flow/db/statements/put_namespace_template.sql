/* put_namespace_template */
-- Creates or replaces a namespace template ($1): mode ($2), poll interval ($3), fallback ($4), provider ($5),
-- announcements ($6), retention of tasks ($7) and of failed tasks ($8) in seconds; null: forever.
insert into {schema}.namespace_template as t (
    name, mode, poll_ms, fallback, provider, announces, retention_s, failed_retention_s
)
values ($1, $2::text::{schema}.claim_mode, $3, $4, $5::text::{schema}.queue_provider, $6, $7, $8)
on conflict (name) do update
set mode = excluded.mode, poll_ms = excluded.poll_ms, fallback = excluded.fallback, provider = excluded.provider,
    announces = excluded.announces,
    retention_s = excluded.retention_s, failed_retention_s = excluded.failed_retention_s
