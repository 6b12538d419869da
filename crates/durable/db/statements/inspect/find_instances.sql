/* find_instances */
-- A page of instances, newest first; the work for it is bounded.
-- $1 status text  $2 name text  $3 version text  $4 the beginning of the id text; null: any
-- $5 created at or after timestamptz
-- $6, $7 before this time and id timestamptz, text
-- $8 at most so many bigint  $9 scan at most so many bigint
-- Rows:  those that match, and the last one scanned if the scan ended there; `matches` tells which.
-- Index: instances_created backwards.
-- Cost:  a million instances, none matches, 20 000 scanned: 9 ms if their pages are cached.
select found.instance_id, found.orchestration_name, found.orchestration_version, found.parent_instance_id,
       found.current_execution_id, found.status, found.created_at, found.updated_at,
       left(found.custom_status, 1000) as custom_status, found.matches,
       found.position = $9 as ends_scan
from (
    select scanned.*,
           row_number() over (order by scanned.created_at desc, scanned.instance_id desc) as position,
           ($1::text is null or scanned.status = $1)
               and ($2::text is null or scanned.orchestration_name = $2)
               and ($3::text is null or scanned.orchestration_version = $3)
               and ($4::text is null or starts_with(scanned.instance_id, $4)) as matches
    from (
        select instance.*
        from {schema}.instances instance
        where instance.created_at >= $5
          and (instance.created_at, instance.instance_id) < ($6, $7)
        order by instance.created_at desc, instance.instance_id desc
        limit $9
    ) as scanned
) as found
where found.matches or found.position = $9
order by found.position
limit $8
