/* table_states */
-- The tables of this schema, largest first: their sizes with indexes and TOAST, and the estimated numbers of rows and
-- dead rows.
select c.relname::text as name, pg_total_relation_size(c.oid) as bytes, coalesce(s.n_live_tup, 0) as live,
    coalesce(s.n_dead_tup, 0) as dead, s.last_autovacuum as vacuumed_at
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
left join pg_stat_user_tables s on s.relid = c.oid
where n.nspname = {schema_text} and c.relkind = 'r'
order by 2 desc
