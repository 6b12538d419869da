-- How the server writes definitions, whatever its settings are: every name with its schema, constants in one form.
-- Ends with the transaction.
set local search_path = '';
set local quote_all_identifiers = off;
set local datestyle = 'ISO, YMD';
set local intervalstyle = 'postgres';
set local timezone = 'UTC';
set local bytea_output = 'hex';
set local extra_float_digits = 1;
