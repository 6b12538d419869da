/* import_copy_sessions */
-- Copies sessions from $1 text to $2 text. Rows: how many. All have expired, or the import would have been rejected. A
-- session that the target has already stays as it is.
with copied as (
    insert into {schema}.sessions (session_id, worker_id, locked_until, last_activity_at)
    select replace(source.session_id, chr(1), chr(1) || '1'),
           replace(source.worker_id, chr(1), chr(1) || '1'),
           to_timestamp(source.locked_until / 1000.0),
           to_timestamp(source.last_activity_at / 1000.0)
    from {source}.sessions source
    where source.session_id between $1 and $2
    on conflict (session_id) do nothing
)
select count(*) from {source}.sessions source where source.session_id between $1 and $2
