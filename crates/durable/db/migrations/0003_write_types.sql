-- The arguments of `commit`. Each type holds rows as columns, one array per column. An array of composite rows would
-- cost more: the client cannot send it, because the binary protocol needs the type's id, which differs between
-- databases, and building it in the statement takes 15 µs, or 150 µs if the statement is not prepared. In the parts
-- of a turn, `turns` has the position of the turn in the batch, from 1.

-- Turns to ack.
create type {schema}.finished_turns as (
    instance_ids           text[],
    lock_tokens            uuid[],
    -- An earlier write of the same batch has the same token.
    repeated               boolean[],
    execution_ids          bigint[],
    -- The events that the turn appends, a row of `history`. Null: none.
    first_event_ids        bigint[],
    last_event_ids         bigint[],
    event_counts           integer[],
    events                 text[],
    -- Name, version and parent: set if the turn begins an execution.
    orchestration_names    text[],
    orchestration_versions text[],
    parent_instance_ids    text[],
    pinned_versions        bigint[],
    -- Null: unchanged.
    statuses               text[],
    outputs                text[],
    changes_custom_status  boolean[],
    custom_statuses        text[],
    clears_keys            boolean[]
);
-- Activities that turns schedule.
create type {schema}.turn_activities as (
    turns         integer[],
    instance_ids  text[],
    execution_ids bigint[],
    activity_ids  bigint[],
    tag_queues    text[],
    session_ids   text[],
    work_items    text[]
);
-- Activities that turns cancel.
create type {schema}.turn_cancellations as (
    turns         integer[],
    instance_ids  text[],
    execution_ids bigint[],
    activity_ids  bigint[]
);
-- Messages that turns send.
create type {schema}.turn_messages as (
    turns        integer[],
    instance_ids text[],
    delays_ms    bigint[],
    work_items   text[]
);
-- Keys that turns set or, if the value is null, remove.
create type {schema}.turn_key_changes as (
    turns              integer[],
    instance_ids       text[],
    keys               text[],
    values             text[],
    last_updated_at_ms bigint[]
);
-- Activities to ack, each with the message that tells its result to an instance, if any.
create type {schema}.finished_activities as (
    instance_ids text[],
    ids          bigint[],
    lock_tokens  uuid[],
    repeated     boolean[],
    receivers    text[],
    work_items   text[]
);
-- Messages that are not sent by turns.
create type {schema}.orchestration_messages as (
    instance_ids text[],
    delays_ms    bigint[],
    work_items   text[]
);
