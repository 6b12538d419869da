/* return_schedules */
-- Makes schedules ($3 ids) due that were taken and not looked at, if they are still of a version ($4) and nobody has advanced them ($5 next ticks), and rings ($1 channels, $2 payloads).
with returned as (
    update {schema}.schedule s set due_at = s.next_at
    from unnest($3::uuid[], $4::bigint[], $5::timestamptz[]) as n (id, version, next_at)
    where s.id = n.id and s.version = n.version and s.next_at = n.next_at
    returning s.id
)
select {schema}.ring($1, $2) from returned limit 1
