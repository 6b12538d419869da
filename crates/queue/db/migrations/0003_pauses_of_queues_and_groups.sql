-- Pops of a paused queue, or of a paused consumer group, find nothing. null: not paused.
alter table {schema}.queue add column paused_at timestamptz;
alter table {schema}.consumer add column paused_at timestamptz;
