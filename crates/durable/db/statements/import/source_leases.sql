/* import_source_leases */
-- The leases in the source that have not expired. The source stores them in milliseconds of the Unix epoch.
-- Rows:  one: leased turns, activities and sessions, when the last lease expires, and in how many seconds.
select leases.turns,
       leases.activities,
       leases.sessions,
       to_char(leases.last_until at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'),
       ceil(extract(epoch from leases.last_until - clock_timestamp()))::bigint
from (select extract(epoch from clock_timestamp()) * 1000 as now_ms) as clock
cross join lateral (
    select count(*) filter (where lease.kind = 'turn') as turns,
           count(*) filter (where lease.kind = 'activity') as activities,
           count(*) filter (where lease.kind = 'session') as sessions,
           to_timestamp(max(lease.until_ms) / 1000.0) as last_until
    from (
        select 'turn' as kind, turn.locked_until as until_ms from {source}.instance_locks turn
        where turn.locked_until > clock.now_ms
        union all
        select 'activity', activity.locked_until from {source}.worker_queue activity
        where activity.locked_until > clock.now_ms
        union all
        select 'session', session.locked_until from {source}.sessions session
        where session.locked_until > clock.now_ms
    ) as lease
) as leases
