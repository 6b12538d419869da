/* import_carry_sessions */
-- Sessions from $1 text to $2 text. Rows: how many. All have ended, or there would be no import; one that the target has is the target's.
with carried as (
    insert into {schema}.sessions (session_id, worker_id, locked_until, last_activity_at)
    select replace(s.session_id, chr(1), chr(1) || '1'), replace(s.worker_id, chr(1), chr(1) || '1'),
           to_timestamp(s.locked_until / 1000.0), to_timestamp(s.last_activity_at / 1000.0)
    from {source}.sessions s where s.session_id between $1 and $2
    on conflict (session_id) do nothing
)
select count(*) from {source}.sessions s where s.session_id between $1 and $2
