/* set_maintenance */
-- Turns a switch. $1 name text: push, pop  $2 enabled boolean
-- Locks: the switch.
update {schema}.maintenance m set enabled = $2::boolean where m.name = $1::text
