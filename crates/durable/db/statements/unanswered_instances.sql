/* unanswered_instances */
-- The leases of claims whose answer was lost. $1 lock_tokens uuid[]. Rare, and reads all leases: they are few.
select lease.instance_id, lease.lock_token
from {schema}.instance_locks lease
where lease.lock_token = any ($1::uuid[])
