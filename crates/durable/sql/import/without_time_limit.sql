/* import_without_time_limit */
-- For the rest of the transaction: a large schema takes longer to count than a statement usually may.
select set_config('statement_timeout', '0', true)
