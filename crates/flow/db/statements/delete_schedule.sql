/* delete_schedule */
-- Removes the schedule of a namespace ($1) and a name ($2). Its tasks stay.
-- Rows: its id; none if there is none.
delete from {schema}.schedule s using {schema}.namespace n
where n.name = $1 and s.namespace_id = n.id and s.name = $2
returning s.id
