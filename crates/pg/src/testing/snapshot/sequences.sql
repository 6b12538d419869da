-- Sequences, except those of identity columns, which belong to their column.
select format('create sequence %s as %s increment %s minvalue %s maxvalue %s start %s cache %s%s;',
              c.oid::regclass, format_type(s.seqtypid, null), s.seqincrement, s.seqmin, s.seqmax,
              s.seqstart, s.seqcache,
              case when s.seqcycle then ' cycle' end) as definition
from pg_catalog.pg_sequence as s
join pg_catalog.pg_class as c on c.oid = s.seqrelid
where c.relnamespace = quote_ident({schema_text})::regnamespace
  and not exists (select
                  from pg_catalog.pg_depend as d
                  where d.classid = 'pg_catalog.pg_class'::regclass and d.objid = c.oid and d.deptype = 'i')
order by c.relname
