/* lock_switch */
-- Blocks the end of push maintenance, and the buffering of further messages, until the transaction ends.
-- Locks: the switch.
select m.enabled from {schema}.maintenance m where m.name = 'push' for update
