-- Recorded outcomes of write batches: one row per batch, written in its own transaction. A process that lost the answer
-- to a batch reads its outcomes here by id. A row is removed soon after its process has received the outcomes, so the
-- table stays small.
-- id: eight bytes of the writer, eight bytes that count its batches; so a writer removes its own rows by a range of
-- ids.
create table {schema}.write_batch (
    id           uuid        primary key,
    outcomes     text[]      not null,
    committed_at timestamptz not null default now()
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, vacuum_truncate = off);
