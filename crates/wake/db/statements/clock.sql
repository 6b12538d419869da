/* clock */
-- The server's clock. Rows: milliseconds of the Unix epoch.
select (extract(epoch from clock_timestamp()) * 1000)::bigint
