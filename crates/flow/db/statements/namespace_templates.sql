/* namespace_templates */
-- All namespace templates, ordered by name.
-- Index: none; there are few.
select t.name, t.mode::text as mode, t.poll_ms, t.fallback, t.provider::text as provider, t.announces,
       t.retention_s, t.failed_retention_s
from {schema}.namespace_template t
order by t.name
