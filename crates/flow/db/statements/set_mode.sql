/* set_mode */
-- Sets how the steps of all namespaces are claimed ($1: the mode of those that are not named; null: theirs stays), of some by events ($2) and of some by polling ($3), and whether what nobody heard of is looked for ($4);
-- and tells everybody ($5: the channel). What is only listened to stays so, unless it is named. With $1, namespaces that are made later begin so.
with set_to as (
    select n.id, case when n.name = any ($2) then 'e' when n.name = any ($3) then 'p' when n.mode = 's' then n.mode else coalesce($1::text::"char", n.mode) end::"char" as mode
    from {schema}.namespace n
), changed as (
    update {schema}.namespace n
    set mode = s.mode, fallback = $4, version = n.version + 1
    from set_to s
    where n.id = s.id and (n.mode <> s.mode or n.fallback <> $4)
    returning n.id
), later as (
    insert into {schema}.namespace_template as p (name, mode, poll_ms, fallback, provider, announces)
    select 'default', $1::text::"char", 1000, $4, 't', false where $1 is not null
    on conflict (name) do update set mode = excluded.mode, fallback = excluded.fallback
)
select {schema}.notify(array[$5], array['']) where exists (select from changed)
