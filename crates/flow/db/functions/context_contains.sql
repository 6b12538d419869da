-- Whether the context of a task contains a JSON, both as text.
-- Contexts that are too large to be parsed for a search, or that jsonb cannot hold, do not match.
-- Cost: of 10 000 contexts, which is what a page scans, about as much as parsing them; larger ones are not read.
create or replace function {schema}.context_contains(context text, part text) returns boolean
language plpgsql immutable
as $$
begin
    return octet_length(context) <= 65536 and context::jsonb @> part::jsonb;
exception
    when data_exception or program_limit_exceeded then return false;
end
$$;
