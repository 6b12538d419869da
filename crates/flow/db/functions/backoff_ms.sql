-- The pause before another attempt, after so many that failed.
create or replace function {schema}.backoff_ms(kind "char", base_ms integer, max_ms integer, attempt integer, jitter real) returns bigint
language sql volatile parallel safe
as $$
    select greatest(0, least(max_ms, floor(base_ms * case kind
        when 'n' then 0
        when 'l' then attempt
        when 'e' then power(2::float8, least(attempt - 1, 62))
        -- Binet's formula: exact as far as it is rounded, and beyond that the limit counts.
        else round(power((1 + sqrt(5::float8)) / 2, least(attempt, 90)) / sqrt(5::float8)) end)
        * case when jitter > 0 then 1 + jitter * (2 * random() - 1) else 1 end))::bigint
$$;
