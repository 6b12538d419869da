-- Keeps what comes before each step of a new template, where that is a few ranges: in a template whose steps stand in
-- the order in which they run it is.
-- Cost: linear in the parents of all steps, up to a bound beyond which nothing more is kept.
create or replace function {schema}.note_ancestors(of_template integer) returns void
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
#variable_conflict use_column
declare
    -- Ranges of one step, and of all steps that are added up.
    few    constant integer := 16;
    many   constant integer := 1000000;
    added  integer := 0;
    mine   int4multirange;
    ranges integer;
    sure   boolean;
    one    record;
begin
    for one in select d.ordinal, d.parents from {schema}.definition d where d.template_id = of_template
        order by d.ordinal loop
        continue when added > many;
        -- The parts of a batch have numbers of their own.
        select coalesce(range_agg(r.range), '{}'), count(*), coalesce(bool_and(r.sure), true) into mine, ranges, sure
        from unnest(one.parents) as p (slot)
        left join lateral (
            select y.before from {schema}.ancestry y where y.template_id = of_template and y.ordinal = p.slot offset 0
        ) y on true
        cross join lateral (
            select d.kind from {schema}.definition d where d.template_id = of_template and d.ordinal = p.slot offset 0
        ) d
        cross join lateral (
            select int4range(p.slot, p.slot + 1) as range, y.before is not null and d.kind <> 'w' as sure
            union all
            select b.range, true from unnest(y.before) as b (range)
        ) r;
        added := added + ranges;
        if sure and (select count(*) from unnest(mine)) <= few then
            insert into {schema}.ancestry (template_id, ordinal, before) values (of_template, one.ordinal, mine);
        end if;
    end loop;
end
$$;
