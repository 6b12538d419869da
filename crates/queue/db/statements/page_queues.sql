/* page_queues */
-- A page of queues with their backlogs, in order of their names.
-- $1 search text: part of the name, case-insensitive  $2 namespace text  $3 name text; null: any
-- $4 after text: the last name of the page before; null: the first page
-- $5 limit bigint: of queues  $6 partitions bigint: the most partitions of a queue that is counted, and those after
--    which a page ends early  $7 patterns text[]: one of which the name is like; null: any
-- Rows:  waiting: messages that some group has not consumed; without groups, all. oldest_at: of the oldest of them.
--        The numbers are null in a queue with more than $6 partitions. dead_letters: up to 10 000.
-- Index: of queue none, its names are read and sorted. Of the queues of the page partition_name; of segment and cursor
--        the primary key, two lookups per partition; dead_letter_queue. 100 of 10 000 queues with a partition each: 6
--        ms; one with 10 000 partitions and three groups that lag: 0.13 s. No page counts more than 2 * $6 partitions.
with named as materialized (
    select q.*
    from {schema}.queue q
    where ($1::text is null or strpos(lower(q.name), lower($1::text)) > 0)
      and ($2::text is null or md5(q.namespace) = md5($2::text) and q.namespace = $2::text)
      and ($3::text is null or md5(q.name) = md5($3::text) and q.name = $3::text)
      and ($4::text is null or q.name > $4::text)
      and ($7::text[] is null or q.name like any ($7::text[]))
    order by q.name
    limit $5::bigint
), sized as materialized (
    select n.*, p.partitions,
           sum(p.partitions) over (order by n.name rows between unbounded preceding and 1 preceding) as before
    from named n
    cross join lateral (
        select count(*) as partitions
        from (select from {schema}.partition p where p.queue_id = n.id limit $6::bigint + 1) p
    ) p
)
select s.*, b.*, k.groups, k.paused_groups, d.dead_letters
from sized s
left join lateral (
    select coalesce(sum(head.next_offset - p.first_offset), 0)::bigint as messages,
           coalesce(sum(head.next_offset - slowest.position), 0)::bigint as waiting,
           coalesce(sum(least(slowest.leased, head.next_offset - slowest.position)), 0)::bigint as leased,
           min(oldest.created_at) as oldest_at
    from {schema}.partition p
    left join lateral (
        select s.next_offset
        from {schema}.segment s
        where s.partition_id = p.id
        order by s.first_offset desc
        limit 1
    ) newest on true
    cross join lateral (select coalesce(newest.next_offset, p.first_offset) as next_offset) head
    cross join lateral (
        select coalesce(least(greatest(min(c.position), p.first_offset), head.next_offset), p.first_offset) as position,
               coalesce(
                   max(c.lease_end - greatest(c.position, p.first_offset))
                       filter (where c.lease_id is not null and c.due_at > now()),
                   0) as leased
        from {schema}.cursor c
        where c.partition_id = p.id
    ) slowest
    left join lateral (
        select s.created_at
        from {schema}.segment s
        where s.partition_id = p.id and s.first_offset <= slowest.position
        order by s.first_offset desc
        limit 1
    ) oldest on slowest.position < head.next_offset
    where p.queue_id = s.id and s.partitions <= $6::bigint
) b on s.partitions <= $6::bigint
cross join lateral (
    select count(*) as groups, count(k.paused_at) as paused_groups
    from {schema}.consumer k
    where k.queue_id = s.id
) k
cross join lateral (
    select count(*) as dead_letters
    from (select from {schema}.dead_letter d where d.queue_id = s.id limit 10000) d
) d
where coalesce(s.before, 0) < $6::bigint
order by s.name
