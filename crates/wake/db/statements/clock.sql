/* clock */
-- What the server's clock reads now. Rows: milliseconds of the Unix epoch.
select (extract(epoch from clock_timestamp()) * 1000)::bigint
