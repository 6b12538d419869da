-- Record that a step has been applied; a function's row is replaced.
insert into {schema}.migration (component, number, name, hash)
values ({component}, {number}, {name}, {hash})
on conflict (component, name) where number is null
do update set hash = excluded.hash, applied_at = excluded.applied_at;
