/* close_investigation */
-- Says what became of something that had to be looked into ($1): the resolution ($2), by whom ($3), notes ($4). No row: there is none. What was said first stays.
update {schema}.investigation i
set resolution = coalesce(i.resolution, $2), resolved_by = coalesce(i.resolved_by, $3), notes = case when i.resolved_at is null then $4 else i.notes end, resolved_at = coalesce(i.resolved_at, now())
where i.id = $1
returning i.id
