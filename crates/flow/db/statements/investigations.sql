/* investigations */
-- A page of investigations, newest first: one ($1), those of a task ($4), or those before an id ($2). Filter: namespace
-- ($3), reason ($5), open or not ($6). At most $7, and at most $9 bytes of snapshots, but at least one. Scans at most
-- $8.
-- Rows:  one per investigation, or one without. `scanned_rows`: how many were scanned, `edge`: the id of the last of
--        them, `matched`: how many of them match, at most $7.
-- Index: the primary key backwards; investigation_task; investigation_newest_open. Lookups are fenced: see
--        docs/decisions/0024-fenced-lookups.md.
-- Pages: beside 1 000 000 entries and tasks, 100 entries 1 216; 100 that are open 2 002; none of a namespace 40 205, in
--        0.04 s (7 021 603 and 2.7 s without $8).
with scanned as materialized (
    (select i.id, i.task_id, i.reason, i.resolved_at from {schema}.investigation i
     where $1::bigint is not null and i.id = $1)
    union all
    (select i.id, i.task_id, i.reason, i.resolved_at from {schema}.investigation i
     where $1::bigint is null and i.task_id = $4 and i.id < coalesce($2, 9223372036854775807)
     order by i.id desc limit $8)
    union all
    (select i.id, i.task_id, i.reason, i.resolved_at from {schema}.investigation i
     where $1::bigint is null and $4::uuid is null and $6 and i.resolved_at is null
       and i.id < coalesce($2, 9223372036854775807)
     order by i.id desc limit $8)
    union all
    (select i.id, i.task_id, i.reason, i.resolved_at from {schema}.investigation i
     where $1::bigint is null and $4::uuid is null and $6 is not true and i.id < coalesce($2, 9223372036854775807)
     order by i.id desc limit $8)
)
select e.scanned_rows, e.edge, i.*
from (select count(*) as scanned_rows, min(l.id) as edge from scanned l) e
left join lateral (
    select r.* from (
        select k.id, k.task_id, n.name as namespace, p.name, p.version, k.reason, w.snapshot, w.created_at,
               w.resolution, w.resolved_by, w.notes, w.resolved_at,
               d.name || case when s.part is null then '' else '_' || to_char(s.part, 'FM9999000') end as step,
               count(*) over () as matched, row_number() over fitting as nth,
               sum(octet_length(w.snapshot)) over fitting as bytes
        from (
            select l.*, t.namespace_id, t.template_id
            from scanned l
            cross join lateral (
                select t.namespace_id, t.template_id from {schema}.task t where t.id = l.task_id offset 0) t
            where ($3::text is null or t.namespace_id = (select o.id from {schema}.namespace o where o.name = $3))
              and ($5::text is null or l.reason = $5) and ($6::boolean is null or (l.resolved_at is null) = $6)
            order by l.id desc limit $7
        ) k
        cross join lateral (select w.* from {schema}.investigation w where w.id = k.id offset 0) w
        cross join lateral (select p.name, p.version from {schema}.template p where p.id = k.template_id offset 0) p
        cross join lateral (select n.name from {schema}.namespace n where n.id = k.namespace_id offset 0) n
        left join lateral (
            select s.slot, s.part from {schema}.step s where s.task_id = k.task_id and s.ordinal = w.ordinal offset 0
        ) s on true
        left join lateral (
            select d.name from {schema}.definition d where d.template_id = k.template_id and d.ordinal = s.slot offset 0
        ) d on true
        window fitting as (order by k.id desc)
    ) r
    where r.nth = 1 or r.bytes <= $9
) i on true
order by i.nth
