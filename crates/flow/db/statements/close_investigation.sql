/* close_investigation */
-- Closes an investigation ($1) with a resolution ($2), by an operator ($3), with notes ($4). The first resolution is
-- kept.
-- Rows: one if there is such an investigation.
update {schema}.investigation i
set resolution = coalesce(i.resolution, $2), resolved_by = coalesce(i.resolved_by, $3),
    notes = case when i.resolved_at is null then $4 else i.notes end,
    resolved_at = coalesce(i.resolved_at, now())
where i.id = $1
returning i.id
