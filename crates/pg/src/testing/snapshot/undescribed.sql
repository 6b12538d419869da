-- What the schema has and the other files of this folder do not describe. Rows: kind and name.
select concat(kind, ' ', name) as definition
from (
    select case c.relkind when 'v' then 'view' when 'm' then 'materialized view'
                          else 'foreign table' end as kind, c.oid::regclass::text as name
    from pg_catalog.pg_class as c
    where c.relnamespace = quote_ident({schema_text})::regnamespace and c.relkind in ('v', 'm', 'f')
    union all
    select case t.typtype when 'd' then 'domain' else 'type' end, t.oid::regtype::text
    from pg_catalog.pg_type as t
    where t.typnamespace = quote_ident({schema_text})::regnamespace and t.typtype not in ('e', 'c')
      and not exists (select from pg_catalog.pg_type as e where e.oid = t.typelem and e.typarray = t.oid)
    union all
    select 'aggregate', p.oid::regprocedure::text
    from pg_catalog.pg_proc as p
    where p.pronamespace = quote_ident({schema_text})::regnamespace and p.prokind = 'a'
    union all
    select 'rule ' || r.rulename || ' on', c.oid::regclass::text
    from pg_catalog.pg_rewrite as r
    join pg_catalog.pg_class as c on c.oid = r.ev_class
    where c.relnamespace = quote_ident({schema_text})::regnamespace and c.relkind in ('r', 'p')
    union all
    select 'policy ' || p.polname || ' on', c.oid::regclass::text
    from pg_catalog.pg_policy as p
    join pg_catalog.pg_class as c on c.oid = p.polrelid
    where c.relnamespace = quote_ident({schema_text})::regnamespace
    union all
    select 'row security of', c.oid::regclass::text
    from pg_catalog.pg_class as c
    where c.relnamespace = quote_ident({schema_text})::regnamespace and (c.relrowsecurity or c.relforcerowsecurity)
    union all
    select 'statistics', s.stxname
    from pg_catalog.pg_statistic_ext as s
    where s.stxnamespace = quote_ident({schema_text})::regnamespace
    union all
    select 'operator', o.oid::regoperator::text
    from pg_catalog.pg_operator as o
    where o.oprnamespace = quote_ident({schema_text})::regnamespace
) as found
order by kind collate "C", name collate "C"
