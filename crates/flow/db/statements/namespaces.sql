/* namespaces */
-- All namespaces.
select n.id, n.name, n.description, n.mode::text as mode, n.poll_ms, n.fallback, n.provider::text as provider,
       n.announces, n.retention_s, n.failed_retention_s, n.version, n.created_at
from {schema}.namespace n
order by n.name
