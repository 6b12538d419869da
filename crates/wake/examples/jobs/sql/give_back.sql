-- Makes claimed jobs due again, as if they had not been claimed.
create or replace function {schema}.give_back(ids bigint[], tokens uuid[]) returns void
language plpgsql set search_path = reveille_own
as $$
begin
    update {schema}.job
    set due_at = now(), attempt = attempt - 1, token = null
    from unnest(ids, tokens) as claimed (id, token)
    where job.id = claimed.id and job.token = claimed.token;
end
$$;
