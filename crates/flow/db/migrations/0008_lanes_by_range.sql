-- The id of a lane says where it lies, so that the lanes of a namespace, and those of a name in it, are ranges of ids:
-- bits 40 to 62 are the namespace, bits 16 to 39 the number of the name in it, from 1, and bits 0 to 15 the priority,
-- counted from the lowest. Lane 0 is still the engine's.
alter table {schema}.step_lane alter column id drop identity;
alter table {schema}.step_lane add column old_id integer;
update {schema}.step_lane set old_id = id;
alter table {schema}.step_lane alter column id type bigint;
update {schema}.step_lane l
set id = (l.namespace_id::bigint << 40) | (n.number << 16) | (l.priority + 32768)
from (select o.old_id, dense_rank() over (partition by o.namespace_id order by o.name) as number from {schema}.step_lane o) n
where n.old_id = l.old_id;
create index on {schema}.step_lane (old_id);
create function {schema}.moved_lane(lane integer) returns bigint language sql stable
as $$ select coalesce((select l.id from {schema}.step_lane l where l.old_id = lane), 0) $$;
drop index {schema}.step_due;
alter table {schema}.step alter column lane_id type bigint using {schema}.moved_lane(lane_id);
drop function {schema}.moved_lane(integer);
alter table {schema}.step_lane drop column old_id;
-- The lanes of all names of a namespace at one priority are one queue: its id is that of the lane with the number 0.
alter table {schema}.step add column queue_id bigint not null generated always as (lane_id & -1099511562241) stored;
-- For claims of whatever is due in a namespace, and for claims by name.
create index step_due on {schema}.step (queue_id, due_at) where due_at < 'infinity';
create index step_lane_due on {schema}.step (lane_id, due_at) where due_at < 'infinity';
