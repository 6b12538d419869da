/* lock_house */
-- Whether nobody else keeps house; nobody else does then until the transaction ends.
select pg_try_advisory_xact_lock(hashtextextended({schema_text} || '/house', 3))
