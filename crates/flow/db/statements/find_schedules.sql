/* find_schedules */
-- The current time, and a page of schedules in the order of their creation, after one ($5). Filter: namespace ($1),
-- name ($2), template ($3), paused or not ($4); null: any. At most $6, and at most $8 bytes of contexts, but at least
-- one. Scans at most $7.
-- Rows:  one per schedule, or one with only the time. `scanned_rows`: how many were scanned, `edge`: the last of them,
--        `matched`: how many of them match, at most $6.
-- Index: primary key; by name the unique one. Lookups are fenced: see docs/decisions/0024-fenced-lookups.md.
-- Pages: beside 100 000 schedules, 100 of them 706; one by its name 17; those of a rare template 326.
with scanned as materialized (
    (select s.id, s.namespace_id, s.template_name, s.paused from {schema}.schedule s
     where $2::text is not null and s.name = $2
       and s.namespace_id = (select o.id from {schema}.namespace o where o.name = $1))
    union all
    (select s.id, s.namespace_id, s.template_name, s.paused from {schema}.schedule s
     where $2::text is null and s.id > coalesce($5, '00000000-0000-0000-0000-000000000000'::uuid)
     order by s.id limit $7)
)
select now() as asked_at, e.scanned_rows, e.edge, s.*
from (
    select (select count(*) from scanned) as scanned_rows,
           (select l.id from scanned l order by l.id desc limit 1) as edge
) e
left join lateral (
    select r.* from (
        select w.id, n.name as namespace, w.name, w.template_name, w.template_version, w.context, w.priority, w.tags,
               w.cron, w.time_zone, w.at, w.missed::text, w.grace_seconds, w.paused, w.version,
               nullif(w.next_at, 'infinity') as next_at, w.last_at, w.last_task, w.last_error, w.created_at,
               w.updated_at, count(*) over () as matched, row_number() over fitting as nth,
               sum(octet_length(w.context)) over fitting as bytes
        from (
            select l.id, l.namespace_id
            from scanned l
            where ($1::text is null or l.namespace_id = (select o.id from {schema}.namespace o where o.name = $1))
              and ($3::text is null or l.template_name = $3) and ($4::boolean is null or l.paused = $4)
            order by l.id limit $6
        ) k
        cross join lateral (select w.* from {schema}.schedule w where w.id = k.id offset 0) w
        cross join lateral (select n.name from {schema}.namespace n where n.id = k.namespace_id offset 0) n
        window fitting as (order by w.id)
    ) r
    where r.nth = 1 or r.bytes <= $8
) s on true
order by s.id
