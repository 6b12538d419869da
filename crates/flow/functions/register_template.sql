-- Keeps a template and its definitions, and its namespace if that is new. The same text again changes nothing.
-- definitions: one element each; `parent_lasts` and `child_lasts` say where those of each end.
-- Rows:        the template, its namespace, whether the text is this one, and whether it was not there before.
create or replace function {schema}.register_template(
    of_namespace text, of_name text, of_version text, of_document text,
    names text[], kinds text[], absents boolean[], callables text[], initializations text[], max_attempts integer[], backoffs text[], backoffs_base_ms integer[], max_backoffs_ms integer[],
    jitters real[], timeouts_ms bigint[], failure_strategies text[], parent_lasts integer[], parents integer[], child_lasts integer[], children integer[]
) returns table (id integer, namespace_id integer, same boolean, new boolean)
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_column
begin
    insert into {schema}.namespace (name) values (of_namespace) on conflict do nothing;
    select n.id into namespace_id from {schema}.namespace n where n.name = of_namespace;
    insert into {schema}.template (namespace_id, name, version, document) values (namespace_id, of_name, of_version, of_document) on conflict do nothing
    returning template.id into id;
    new := id is not null;
    if not new then
        select t.id, t.document = of_document into id, same from {schema}.template t where t.namespace_id = register_template.namespace_id and t.name = of_name and t.version = of_version;
        return next;
        return;
    end if;
    insert into {schema}.definition (template_id, ordinal, name, kind, absent, callable, initialization, max_attempts, backoff, backoff_base_ms, max_backoff_ms, jitter, timeout_ms,
                                     failure_strategy, parents, children)
    select register_template.id, n.place - 1, n.name, n.kind::"char", n.absent, n.callable, n.initialization, n.max_attempts, n.backoff::"char", n.base, n.most, n.jitter, n.timeout,
           n.strategy::"char", parents[coalesce(parent_lasts[n.place - 1], 0) + 1:parent_lasts[n.place]], children[coalesce(child_lasts[n.place - 1], 0) + 1:child_lasts[n.place]]
    from unnest(names, kinds, absents, callables, initializations, max_attempts, backoffs, backoffs_base_ms, max_backoffs_ms, jitters, timeouts_ms, failure_strategies)
         with ordinality as n (name, kind, absent, callable, initialization, max_attempts, backoff, base, most, jitter, timeout, strategy, place);
    same := true;
    return next;
end
$$;
