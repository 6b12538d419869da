-- Ends attempts: done (retry_ms is null: the job is deleted), due again after a delay, or never again (a negative
-- delay).
-- Outcomes: `true`; `false` if the token is no longer the job's, because its lease ended; null if the row is locked by
-- another transaction.
create or replace function {schema}.finish(
    batch_id uuid, channels text[], payloads text[], patient boolean,
    ids bigint[], tokens uuid[], retries_ms bigint[]
) returns table (outcomes text[], backend integer)
language plpgsql set search_path = reveille_own
as $$
declare
    locked_ids bigint[];
begin
    -- Lock first, in order of ids; then decide in a second statement, whose snapshot includes what the lock waited for.
    if patient then
        locked_ids := array(select id from {schema}.job where id = any (ids) order by id for update);
    else
        locked_ids := array(select id from {schema}.job where id = any (ids) order by id for update skip locked);
    end if;
    with ended as (
        select given.*, row_number() over (partition by given.id, given.token order by given.position) = 1 as first
        from unnest(ids, tokens, retries_ms) with ordinality as given (id, token, retry_ms, position)
    ), checked as (
        select ended.*,
               case when job.id is not null and not job.id = any (locked_ids) then null
                    else ended.first and job.id is not null and job.token is not distinct from ended.token
               end as is_current
        from ended
        left join {schema}.job on job.id = ended.id
    ), done as (
        delete from {schema}.job
        using checked
        where job.id = checked.id and checked.is_current and checked.retry_ms is null
    ), retried as (
        update {schema}.job
        set token = null, due_at = case when checked.retry_ms >= 0 then now() + checked.retry_ms * interval '1 ms' end
        from checked
        where job.id = checked.id and checked.is_current and checked.retry_ms is not null
    )
    select array_agg(is_current::text order by position)
    into outcomes
    from checked;
    backend := {schema}.finish_batch(batch_id, outcomes, channels, payloads);
    return next;
end
$$;
