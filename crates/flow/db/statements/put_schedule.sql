/* put_schedule */
-- Creates a schedule ($4 id, $5 namespace, $6 name), or replaces the one of that name if it still has a version ($3;
-- null: there was none), and notifies ($1 channels, $2 payloads).
-- $7 template  $8 version  $9 context  $10 priority  $11 tags  $12 cron  $13 time zone  $14 at  $15 missed
-- $16 grace in seconds  $17 paused  $18 next tick, null: none
-- Rows: one with its id; none if it was changed meanwhile.
with stored as (
    insert into {schema}.schedule as s (
        id, namespace_id, name, template_name, template_version, context, priority, tags, cron, time_zone, at, missed,
        grace_seconds, paused, next_at, due_at)
    select $4, n.id, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15::text::{schema}.missed_ticks, $16, $17,
           coalesce($18::timestamptz, 'infinity'), coalesce($18::timestamptz, 'infinity')
    from {schema}.namespace n
    where n.name = $5
    on conflict (namespace_id, name) do update
    set template_name = excluded.template_name, template_version = excluded.template_version,
        context = excluded.context, priority = excluded.priority, tags = excluded.tags, cron = excluded.cron,
        time_zone = excluded.time_zone, at = excluded.at, missed = excluded.missed,
        grace_seconds = excluded.grace_seconds, paused = excluded.paused, next_at = excluded.next_at,
        due_at = excluded.due_at, version = s.version + 1, updated_at = now()
    where s.version = $3
    returning s.id
)
select stored.id, {schema}.notify($1, $2) from stored
