/* import_leases */
-- Who still works on the source. Its leases are milliseconds of the Unix epoch.
-- Rows:  one: turns, activities and sessions that are leased, until when the last of them is, and how many seconds that takes.
select l.turns, l.activities, l.sessions, to_char(l.until at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'),
       ceil(extract(epoch from l.until - clock_timestamp()))::bigint
from (select extract(epoch from clock_timestamp()) * 1000 as ms) clock
cross join lateral (
    select count(*) filter (where h.kind = 't') as turns, count(*) filter (where h.kind = 'a') as activities,
           count(*) filter (where h.kind = 's') as sessions, to_timestamp(max(h.until_ms) / 1000.0) as until
    from (select 't' as kind, t.locked_until as until_ms from {source}.instance_locks t where t.locked_until > clock.ms
          union all
          select 'a', a.locked_until from {source}.worker_queue a where a.locked_until > clock.ms
          union all
          select 's', s.locked_until from {source}.sessions s where s.locked_until > clock.ms) h) l
