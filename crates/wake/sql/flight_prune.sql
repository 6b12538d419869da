/* flight_prune */
-- Removes the outcomes this process has heard. $1 first id of this process uuid  $2 its oldest flight still in the air uuid
-- Index: primary key, a range at its own end of the tree.
delete from {schema}.flight where id >= $1 and id < $2
