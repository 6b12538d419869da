/* lock_switch */
-- Keeps the maintenance of pushes from ending, and messages from being kept for its end, until the transaction ends.
-- Locks: the switch.
select m.enabled from {schema}.maintenance m where m.name = 'push' for update
