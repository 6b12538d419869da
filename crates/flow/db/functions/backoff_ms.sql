-- The pause before the next attempt, in milliseconds.
-- attempt: the number of the attempt that failed, from 1.
-- jitter:  the largest random change of the pause, up or down, as a share of it.
create or replace function {schema}.backoff_ms(
    kind {schema}.backoff_kind, base_ms integer, max_ms integer, attempt integer, jitter real
) returns bigint
language sql volatile parallel safe
as $$
    select greatest(0, least(max_ms, floor(base_ms * case kind
        when 'none' then 0
        when 'linear' then attempt
        when 'exponential' then power(2::float8, least(attempt - 1, 62))
        -- Binet's formula for the Fibonacci numbers: exact when rounded; beyond its precision the limit applies.
        else round(power((1 + sqrt(5::float8)) / 2, least(attempt, 90)) / sqrt(5::float8)) end)
        * case when jitter > 0 then 1 + jitter * (2 * random() - 1) else 1 end))::bigint
$$;
