/* flight_outcomes */
-- What became of a flight whose answer was lost. $1 id uuid
-- Rows: its outcomes in the order of its members; none if it has not committed (yet).
-- Index: primary key.
select outcomes from {schema}.flight where id = $1
