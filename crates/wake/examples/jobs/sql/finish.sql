-- Ends attempts: done (the job goes), or due again after a delay, or never (a negative one). Outcomes: `true`; `false` if the token
-- is no longer the job's, because its lease ended; null if somebody else has the row locked.
create or replace function {schema}.finish(
    flight uuid, channels text[], payloads text[], patient boolean,
    ids bigint[], tokens uuid[], retries_ms bigint[]
) returns table (outcomes text[], backend integer)
language plpgsql set search_path = reveille_own
as $$
declare
    held bigint[];
begin
    -- Lock first, in order of ids; decide next, by another statement, which sees what the lock waited for.
    if patient then
        held := array(select id from {schema}.job where id = any (ids) order by id for update);
    else
        held := array(select id from {schema}.job where id = any (ids) order by id for update skip locked);
    end if;
    with asked as (
        select a.*, row_number() over (partition by a.id, a.token order by a.place) = 1 as first
        from unnest(ids, tokens, retries_ms) with ordinality as a (id, token, retry_ms, place)
    ), judged as (
        select a.*, case when j.id is not null and not j.id = any (held) then null
                         else a.first and j.token is not distinct from a.token and j.id is not null end as ours
        from asked a left join {schema}.job j on j.id = a.id
    ), gone as (
        delete from {schema}.job j using judged a where j.id = a.id and a.ours and a.retry_ms is null
    ), again as (
        update {schema}.job j
        set token = null, due_at = case when a.retry_ms >= 0 then now() + a.retry_ms * interval '1 ms' end
        from judged a where j.id = a.id and a.ours and a.retry_ms is not null
    )
    select array_agg(ours::text order by place) into outcomes from judged;
    backend := {schema}.finish_batch(flight, outcomes, channels, payloads);
    return next;
end
$$;
