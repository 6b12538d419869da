/* set_mode */
-- Sets how the steps of all namespaces are claimed ($1: the mode of those that are not named; null: unchanged), of some
-- event-driven ($2) and of some by polling ($3), and whether the fallback poller runs ($4); and notifies ($5: the
-- channel). A namespace in shadow mode keeps it, unless it is named. With $1, later namespaces begin with that mode.
with wanted as (
    select n.id, case
        when n.name = any ($2) then 'event_driven'
        when n.name = any ($3) then 'polling'
        when n.mode = 'shadow' then n.mode
        else coalesce($1::text::{schema}.claim_mode, n.mode) end as mode
    from {schema}.namespace n
), changed as (
    update {schema}.namespace n
    set mode = wanted.mode, fallback = $4, version = n.version + 1
    from wanted
    where n.id = wanted.id and (n.mode <> wanted.mode or n.fallback <> $4)
    returning n.id
), later as (
    insert into {schema}.namespace_template as p (name, mode, poll_ms, fallback, provider, announces)
    select 'default', $1::text::{schema}.claim_mode, 1000, $4, 'table', false
    where $1 is not null
    on conflict (name) do update set mode = excluded.mode, fallback = excluded.fallback
)
select {schema}.notify(array[$5], array['']) where exists (select from changed)
