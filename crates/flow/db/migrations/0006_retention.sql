-- How long tasks of a namespace are kept after their end, in seconds: those that are complete, cancelled or resolved,
-- and those that failed. Null: for ever.
-- A failed task waits for a person, so it is kept longer.
alter table {schema}.namespace
    add column retention_s bigint default 2592000,
    add column failed_retention_s bigint default 7776000;
alter table {schema}.namespace_template
    add column retention_s bigint default 2592000,
    add column failed_retention_s bigint default 7776000;

-- The tasks of a namespace and state that ended first. `ended_at` changes when a task ends or is resumed, and not while
-- it runs, so this costs one entry per task.
create index task_ended on {schema}.task (namespace_id, state, ended_at) where ended_at is not null;

-- Tasks that are gone, and of which rows may be left in the tables below. Those are deleted some thousand at a time: a
-- task may have a million of them.
create table {schema}.removed_task (
    task_id uuid primary key
);
create index domain_event_task on {schema}.domain_event (task_id);

-- What is deleted is to be used again soon.
alter table {schema}.attempt set (autovacuum_vacuum_scale_factor = 0.05);
alter table {schema}.task_detail set (autovacuum_vacuum_scale_factor = 0.05);
alter table {schema}.domain_event set (autovacuum_vacuum_scale_factor = 0.05);
