-- Whether a lease that expires without an ack counts against `retry_limit`, as a failed ack does.
alter table {schema}.queue add column charge_expired_leases boolean not null default true;

-- Messages before this offset were in a lease that expired. They are delivered one at a time, so that a message that stops its
-- consumer is told apart from those that were delivered with it.
alter table {schema}.cursor add column suspect_until bigint not null default 0;
-- The lease holds one message and nothing else, in no other partition: if it expires, that message is the reason.
alter table {schema}.cursor add column lease_is_single boolean not null default false;

-- Not compressed: the size of what a pop answers is taken from the size of these columns.
alter table {schema}.segment alter column trace_ids set storage external;
alter table {schema}.segment alter column producers set storage external;

-- After what age a message is removed that every consumer group has consumed, where `retention_enabled` is not set; 0: never.
alter table {schema}.queue add column consumed_retention_seconds integer not null default 86400;
