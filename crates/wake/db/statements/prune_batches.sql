/* prune_batches */
-- Removes the outcomes this process has heard. $1 from which id of this process uuid  $2 its oldest attempt still in the air uuid
-- Places taken by fence_batch stay: the attempt they keep out may still be running on a server that lost its client.
-- Index: primary key, a range at its own end of the tree.
delete from {schema}.write_batch where id >= $1 and id < $2 and outcomes <> '{}'
