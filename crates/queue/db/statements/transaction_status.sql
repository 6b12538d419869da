/* transaction_status */
-- The status of a transaction whose answer was lost: committed, aborted, or in progress. $1 transaction text
select pg_xact_status($1::text::xid8)
