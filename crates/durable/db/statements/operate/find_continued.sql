/* find_continued */
-- Instances with more than one execution, newest first. $1 name text; null: any
-- $2, $3 before this time and id timestamptz, text  $4 at most so many bigint  $5 scan at most so many bigint
-- Rows:  those that match, and the last one scanned if the scan ended there; `matches` tells which.
-- Index: instances_created backwards.
select found.instance_id, found.orchestration_name, found.status, found.created_at, found.matches,
       found.position = $5 as ends_scan
from (
    select scanned.*,
           row_number() over (order by scanned.created_at desc, scanned.instance_id desc) as position,
           scanned.current_execution_id > 1 and ($1::text is null or scanned.orchestration_name = $1) as matches
    from (
        select instance.instance_id, instance.orchestration_name, instance.status, instance.created_at,
               instance.current_execution_id
        from {schema}.instances instance
        where (instance.created_at, instance.instance_id) < ($2, $3)
        order by instance.created_at desc, instance.instance_id desc
        limit $5
    ) as scanned
) as found
where found.matches or found.position = $5
order by found.position
limit $4
