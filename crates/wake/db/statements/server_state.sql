/* server_state */
-- What slows everything down from outside: a transaction that holds back vacuum, dead rows, a notification queue that
-- fills up. $1 the schema text
-- Rows:  one: the age of the oldest transaction with a snapshot in seconds, null if there is none; live and dead rows
--        of the schema's tables, estimated; the used share of the notification queue, from 0 to 1.
-- Index: none; views of the statistics, one row per connection and per table.
select
    (
        select extract(epoch from max(clock_timestamp() - activity.xact_start))::float8
        from pg_stat_activity activity
        where activity.backend_xmin is not null
          and activity.pid <> pg_backend_pid()
    ) as oldest_transaction,
    tables.live,
    tables.dead,
    pg_notification_queue_usage() as notification_queue
from (
    select
        coalesce(sum(user_table.n_live_tup), 0)::bigint as live,
        coalesce(sum(user_table.n_dead_tup), 0)::bigint as dead
    from pg_stat_user_tables user_table
    where user_table.schemaname = $1
) tables
