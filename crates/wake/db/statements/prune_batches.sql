/* prune_batches */
-- Removes the outcomes that this process has received. $1 first id uuid  $2 the oldest attempt still in progress uuid
-- Rows of fence_batch stay: the attempt they prevent may still be running on a server that lost its client.
-- Index: primary key, a range at its own end of the tree.
delete from {schema}.write_batch
where id >= $1
  and id < $2
  and outcomes <> '{}'
