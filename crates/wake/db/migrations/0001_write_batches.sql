-- The outcomes of writes whose answer may get lost: one row per flight, written in the flight's own transaction. A flight that
-- never heard its answer asks for it by id. Rows live until their process has heard (moments), so the table stays small.
-- id: eight bytes that name the process, eight bytes that count its flights; so a process removes its own by range.
create table {schema}.write_batch (
    id        uuid        primary key,
    outcomes  text[]      not null,
    committed_at timestamptz not null default now()
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, vacuum_truncate = off);
