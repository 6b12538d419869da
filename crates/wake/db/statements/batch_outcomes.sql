/* batch_outcomes */
-- The recorded outcomes of a committed batch. $1 id uuid
-- Rows: its outcomes in the order of its writes.
-- Index: primary key.
select outcomes
from {schema}.write_batch
where id = $1
