/* import_settings */
-- For the rest of the transaction: a large schema takes longer to count than a statement usually may, and a batch is too short to be compiled.
select set_config('statement_timeout', '0', true), set_config('jit', 'off', true)
