-- Stores a template and its definitions, and creates its namespace if that is new. The same text again changes nothing.
-- limits:      an object, the columns of the template that limit a task, and the description that lists show. The
--              document itself is not read: it may have \u0000 in a string, which PostgreSQL cannot decode.
-- definitions: an array of objects, one for each step in order, with the columns of its definition.
-- Rows:        the template, its namespace, whether the stored text is this one, and whether it was created.
create or replace function {schema}.register_template(
    of_namespace text, of_name text, of_version text, of_document text, limits json, definitions json
) returns table (id integer, namespace_id integer, same boolean, new boolean)
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_column
begin
    perform {schema}.open_namespace(of_namespace, 'default', null, null);
    select n.id into namespace_id from {schema}.namespace n where n.name = of_namespace;
    insert into {schema}.template (
        namespace_id, name, version, document, description, step_count, max_duration_ms, max_waiting_ms, max_retry_ms,
        max_in_process_ms, staleness)
    select register_template.namespace_id, of_name, of_version, of_document, coalesce(l.description, ''),
           json_array_length(definitions), l.max_duration_ms, l.max_waiting_ms, l.max_retry_ms, l.max_in_process_ms,
           l.staleness::{schema}.staleness_action
    from json_to_record(limits) as l (
        description text, max_duration_ms bigint, max_waiting_ms bigint, max_retry_ms bigint, max_in_process_ms bigint,
        staleness text)
    on conflict do nothing
    returning template.id into id;
    new := id is not null;
    if not new then
        select t.id, t.document = of_document into id, same
        from {schema}.template t
        where t.namespace_id = register_template.namespace_id and t.name = of_name and t.version = of_version;
        return next;
        return;
    end if;
    insert into {schema}.definition (
        template_id, ordinal, name, kind, parents, children, conditional, callable, initialization, max_attempts,
        backoff, backoff_base_ms, max_backoff_ms, jitter, timeout_ms, failure_strategy, success_events, failure_events)
    select register_template.id, d.ordinal, d.name, d.kind::{schema}.step_kind, d.parents, d.children, d.conditional,
           d.callable, d.initialization, d.max_attempts, d.backoff::{schema}.backoff_kind, d.backoff_base_ms,
           d.max_backoff_ms, d.jitter, d.timeout_ms, d.failure_strategy::{schema}.failure_strategy, d.success_events,
           d.failure_events
    from json_to_recordset(definitions) as d (
        ordinal integer, name text, kind text, parents integer[], children integer[], conditional boolean,
        callable text, initialization text, max_attempts integer, backoff text, backoff_base_ms integer,
        max_backoff_ms integer, jitter real, timeout_ms bigint, failure_strategy text, success_events text[],
        failure_events text[]);
    -- Claims by callables have to learn the new names.
    update {schema}.namespace n set version = n.version + 1 where n.id = register_template.namespace_id;
    perform {schema}.notify(array[{namespaces}], array['']);
    perform {schema}.note_ancestors(id);
    same := true;
    return next;
end
$$;
