-- Stores the ancestors of each step of a new template, where they are a few ranges: in a template whose steps are
-- listed in the order in which they run they are.
-- Cost: linear in the parents of all steps, up to a bound beyond which nothing more is stored.
create or replace function {schema}.note_ancestors(of_template integer) returns void
language plpgsql volatile set search_path = reveille_own {index_plans} set jit = off
as $$
#variable_conflict use_column
declare
    max_ranges constant integer := 16;
    max_added  constant integer := 1000000;
    added      integer := 0;
    covered    int4multirange;
    ranges     integer;
    all_known  boolean;
    one        record;
begin
    for one in
        select d.ordinal, d.parents from {schema}.definition d where d.template_id = of_template order by d.ordinal
    loop
        continue when added > max_added;
        -- The parts of a batch have ordinals of their own, so their ancestors are not complete.
        select coalesce(range_agg(r.range), '{}'), count(*), coalesce(bool_and(r.complete), true)
        into covered, ranges, all_known
        from unnest(one.parents) as p (slot)
        left join lateral (
            select y.ancestors from {schema}.ancestry y
            where y.template_id = of_template and y.ordinal = p.slot
            offset 0
        ) y on true
        cross join lateral (
            select d.kind from {schema}.definition d where d.template_id = of_template and d.ordinal = p.slot offset 0
        ) d
        cross join lateral (
            select int4range(p.slot, p.slot + 1) as range,
                   y.ancestors is not null and d.kind <> 'batch_worker' as complete
            union all
            select b.range, true from unnest(y.ancestors) as b (range)
        ) r;
        added := added + ranges;
        if all_known and (select count(*) from unnest(covered)) <= max_ranges then
            insert into {schema}.ancestry (template_id, ordinal, ancestors) values (of_template, one.ordinal, covered);
        end if;
    end loop;
end
$$;
