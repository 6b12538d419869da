/* find_schedules */
-- What time it is, and schedules in the order in which they were made, $6 at most: of a namespace ($1), a name ($2), a template ($3), that are paused or not ($4), and made after another
-- one ($5); null: any.
-- Rows:  one per schedule; if there is none, one with nulls but for the time.
-- Index: primary key; by name the unique one.
select now() as asked_at, s.*
from (values (true)) as one
left join lateral (
    select s.id, n.name as namespace, s.name, s.template_name, s.template_version, s.context, s.priority, s.tags, s.cron, s.time_zone, s.at, s.missed::text, s.grace_seconds, s.paused, s.version,
           nullif(s.next_at, 'infinity') as next_at, s.last_at, s.last_task, s.last_error, s.created_at, s.updated_at
    from {schema}.schedule s
    join {schema}.namespace n on n.id = s.namespace_id
    where ($1::text is null or s.namespace_id = (select o.id from {schema}.namespace o where o.name = $1)) and ($2::text is null or s.name = $2)
      and ($3::text is null or s.template_name = $3) and ($4::boolean is null or s.paused = $4) and ($5::uuid is null or s.id > $5)
    order by s.id limit $6
) s on true
