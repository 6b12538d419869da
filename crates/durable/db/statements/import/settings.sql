/* import_settings */
-- For the rest of the transaction: counting a large schema may exceed the statement timeout, and a batch is too short
-- for JIT compilation to pay off.
select set_config('statement_timeout', '0', true), set_config('jit', 'off', true)
