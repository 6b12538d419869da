/* maintenance */
-- The state of maintenance, and the buffered messages: their number, their bytes, and the time of the oldest.
select (select m.enabled from {schema}.maintenance m where m.name = 'push') as push,
    (select m.enabled from {schema}.maintenance m where m.name = 'pop') as pop,
       count(*) as buffered, coalesce(sum(octet_length(b.payload)), 0)::bigint as bytes, min(b.created_at) as oldest_at
from {schema}.buffered b
