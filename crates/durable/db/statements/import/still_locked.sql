/* import_still_locked */
-- Whether the transaction that holds the lock is still there. Asked often enough to keep a server from ending it for idling.
select 1
