/* due_providers */
-- Which of these namespaces ($1), each with a provider ($2), have a step to be sent, as indexes from 1.
-- Index: step_due_in_namespace of the queues that have steps.
select q.index::integer
from unnest($1::text[], $2::text[]) with ordinality as q (namespace, provider, index)
join {schema}.namespace n on n.name = q.namespace and n.provider = q.provider::{schema}.queue_provider
where exists (
    select from {schema}.live_namespace_queues(array[n.id::bigint << 40], array[(n.id::bigint << 40) + 65535]) l
        where l.due_at <= now())
