/* skip */
-- Moves on past messages that were deleted before anybody read them. $1 leases uuid[]
update {schema}.cursor set version = version + 1, position = lease_end, due_at = now(), lease_id = null, lease_end = null
where lease_id = any ($1::uuid[])
