-- Of a step in a namespace whose steps are handed out through another queue: the number of the message that was sent last. Whoever brings that message may claim the step. `due_at` is then when it is
-- sent again if nobody has. Null: none was sent, or it has done its work.
alter table {schema}.step add column published bigint;
