/* import_next_sessions */
-- The next sessions. $1 after which text  $2 or from it on boolean  $3 how many bigint
-- Rows:  one: the first and the last of them; nulls if there are no more.
select min(b.session_id), max(b.session_id)
from (select s.session_id from {source}.sessions s
      where s.session_id >= $1 and (s.session_id > $1 or $2) order by s.session_id limit $3) b
