-- Backlog of queues and consumer groups, for monitoring.
-- top:     the number of queues, and of groups, with a row of their own; the others are summed up.
-- counted: dead letters of a queue are counted up to this number.
-- Rows:    kind `queue`: those with the largest backlog, then with most dead letters. kind `group`: those that lag
--          most. The sum of the others has null for a name; `sources` is how many it sums up.
--          waiting: messages that some group has not acked, or, in a queue without groups, all; of a group, those it
--          has not acked. oldest: the age of the oldest of them in seconds; null if there is none.
-- Index:   of segment and cursor the primary key: a lookup each per partition, and one more per cursor where something
--          waits; dead_letter_queue. No message is read. Sequential scans are off because a table that was empty when
--          it was analysed would be read whole for every queue.
-- Cost:    10 000 partitions with three groups that all lag: 192 000 pages, all of them in memory, 0.25 s on an idle
--          machine. The caller bounds its time and how often it is called.
create or replace function {schema}.figures(top bigint, counted bigint)
returns table (
    kind text, queue text, consumer text, sources bigint, partitions bigint,
    waiting bigint, dead_letters bigint, oldest float8
)
language sql stable set search_path = reveille_own set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
    with bounds as materialized (
        select p.id, p.queue_id, p.first_offset, coalesce(l.next_offset, p.first_offset) as head
        from {schema}.partition p
        left join lateral (
            select s.next_offset from {schema}.segment s
            where s.partition_id = p.id order by s.first_offset desc limit 1) l on true
    ), reader as materialized (
        select p.id, p.queue_id, c.consumer_id, p.head - a.position as waiting, o.created_at
        from bounds p
        join {schema}.cursor c on c.partition_id = p.id
        cross join lateral (select least(greatest(c.position, p.first_offset), p.head) as position) a
        left join lateral (
            select s.created_at from {schema}.segment s
            where s.partition_id = p.id and s.first_offset <= a.position
            order by s.first_offset desc limit 1) o on a.position < p.head
    ), unread as (
        select p.id, p.queue_id, p.head - p.first_offset as waiting, f.created_at
        from bounds p
        left join lateral (
            select s.created_at from {schema}.segment s
            where s.partition_id = p.id order by s.first_offset limit 1) f on true
        where not exists (select from reader r where r.id = p.id)
    ), depth as (
        select e.queue_id, count(*) as partitions, sum(e.waiting) as waiting, min(e.created_at) as created_at
        from (
            select r.queue_id, max(r.waiting) as waiting, min(r.created_at) as created_at
            from reader r group by r.id, r.queue_id
            union all
            select u.queue_id, u.waiting, u.created_at from unread u
        ) e
        group by e.queue_id
    ), ranked_queue as (
        select q.name, coalesce(d.partitions, 0) as partitions, coalesce(d.waiting, 0) as waiting, d.created_at, l.dead,
               row_number() over (order by coalesce(d.waiting, 0) desc, l.dead desc, q.id) as rank
        from {schema}.queue q
        left join depth d on d.queue_id = q.id
        cross join lateral (
            select count(*) as dead
            from (select from {schema}.dead_letter d where d.queue_id = q.id limit counted) d) l
    ), ranked_group as (
        select q.name as queue, k.name, g.waiting, g.created_at, g.partitions,
               row_number() over (order by g.waiting desc, k.id) as rank
        from (
            select r.queue_id, r.consumer_id, sum(r.waiting) as waiting, min(r.created_at) as created_at,
                   count(*) as partitions
            from reader r group by r.queue_id, r.consumer_id
        ) g
        join {schema}.queue q on q.id = g.queue_id
        join {schema}.consumer k on k.id = g.consumer_id
    )
    select 'queue', r.queue, null, r.sources, r.partitions, r.waiting, r.dead,
           extract(epoch from now() - r.created_at)::float8
    from (
        select case when r.rank <= top then r.name end as queue, count(*) as sources,
               sum(r.partitions)::bigint as partitions, sum(r.waiting)::bigint as waiting, sum(r.dead)::bigint as dead,
               min(r.created_at) as created_at
        from ranked_queue r group by least(r.rank, top + 1), 1
    ) r
    union all
    select 'group', r.queue, r.consumer, r.sources, r.partitions, r.waiting, 0,
           extract(epoch from now() - r.created_at)::float8
    from (
        select case when r.rank <= top then r.queue end as queue, case when r.rank <= top then r.name end as consumer,
               count(*) as sources, sum(r.partitions)::bigint as partitions, sum(r.waiting)::bigint as waiting,
               min(r.created_at) as created_at
        from ranked_group r group by least(r.rank, top + 1), 1, 2
    ) r
$$;
