/* find_schedules */
-- What time it is, and schedules in the order in which they were made, $6 at most, and no more than fit into $8 bytes
-- of contexts, but one at least: of a namespace ($1), a name ($2), a template ($3), that are paused or not ($4), and
-- made after another one ($5); null: any. $7 schedules are looked at, at most.
-- Rows:  one per schedule; if there is none, one with nulls but for the time. `looked_at`: how many were looked at, and
--        `edge`: the last of them. `matched`: how many of those fit the filter, $6 at most.
-- Index: primary key; by name the unique one. Lookups are fenced: see docs/decisions/0024-fenced-lookups.md.
-- Pages: beside 100 000 schedules, 100 of them 706; one by its name 17; those of a rare template 326.
with looked as materialized (
    (select s.id, s.namespace_id, s.template_name, s.paused from {schema}.schedule s
     where $2::text is not null and s.name = $2
       and s.namespace_id = (select o.id from {schema}.namespace o where o.name = $1))
    union all
    (select s.id, s.namespace_id, s.template_name, s.paused from {schema}.schedule s
     where $2::text is null and s.id > coalesce($5, '00000000-0000-0000-0000-000000000000'::uuid)
     order by s.id limit $7)
)
select now() as asked_at, e.looked_at, e.edge, s.*
from (
    select (select count(*) from looked) as looked_at, (select l.id from looked l order by l.id desc limit 1) as edge
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
            from looked l
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
