/* import_next_sessions */
-- The next batch of sessions. $1 after this one text  $2 or from it on boolean  $3 at most bigint
-- Rows:  one: the first and the last of them; nulls if there are no more.
select min(batch.session_id), max(batch.session_id)
from (
    select session.session_id from {source}.sessions session
    where session.session_id >= $1 and (session.session_id > $1 or $2)
    order by session.session_id
    limit $3
) as batch
