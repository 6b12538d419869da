/* batch_outcomes */
-- What became of an attempt that has committed. $1 id uuid
-- Rows: its outcomes in the order of its members.
-- Index: primary key.
select outcomes from {schema}.write_batch where id = $1
