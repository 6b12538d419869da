/* namespaces_changed */
-- A number that changes with every change of a namespace.
select coalesce(sum(n.version), 0)::bigint from {schema}.namespace n
