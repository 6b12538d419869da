/* maintenance */
-- What is under maintenance, and what waits for its end: how many messages, of how many bytes, since when.
select (select m.enabled from {schema}.maintenance m where m.name = 'push') as push,
    (select m.enabled from {schema}.maintenance m where m.name = 'pop') as pop,
       count(*) as buffered, coalesce(sum(octet_length(b.payload)), 0)::bigint as bytes, min(b.created_at) as oldest_at
from {schema}.buffered b
