/* delete_schedule */
-- Deletes the schedule with a name ($2) in a namespace ($1). Its tasks are kept.
-- Rows: its id; none if there is no such schedule.
delete from {schema}.schedule s using {schema}.namespace n
where n.name = $1 and s.namespace_id = n.id and s.name = $2
returning s.id
