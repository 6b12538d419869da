/* unanswered_work */
-- The activities of claims whose answer was lost. $1 lock_tokens uuid[]. Rare, and reads all activities: an index of
-- tokens would cost every claim, which is a HOT update. A million activities: 0.2 s.
select activity.instance_id, activity.id, activity.lock_token
from {schema}.worker_queue activity
where activity.lock_token = any ($1::uuid[])
