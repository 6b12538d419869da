-- The arguments of `commit`: arrays of these rows. The statement builds them from one array per column, because the
-- binary protocol needs the type ids of composites, which differ between databases. In the parts of a turn, `turn` is
-- the position of the turn in the batch, from 1.

-- A turn to ack.
create type {schema}.finished_turn as (
    instance_id           text,
    lock_token            uuid,
    -- An earlier write of the same batch has the same token.
    repeated              boolean,
    execution_id          bigint,
    -- Null: the turn appends no events.
    first_event_id        bigint,
    -- Name, version and parent: set if the turn begins an execution.
    orchestration_name    text,
    orchestration_version text,
    parent_instance_id    text,
    pinned_version        bigint,
    -- Null: unchanged.
    status                text,
    output                text,
    changes_custom_status boolean,
    custom_status         text,
    clears_keys           boolean
);
-- The events that a turn appends: a row of `history`.
create type {schema}.turn_events as (
    turn          integer,
    instance_id   text,
    execution_id  bigint,
    event_id      bigint,
    last_event_id bigint,
    event_count   integer,
    events        text
);
-- An activity that a turn schedules.
create type {schema}.turn_activity as (
    turn         integer,
    instance_id  text,
    execution_id bigint,
    activity_id  bigint,
    tag_queue    text,
    session_id   text,
    work_item    text
);
-- An activity that a turn cancels.
create type {schema}.turn_cancellation as (
    turn         integer,
    instance_id  text,
    execution_id bigint,
    activity_id  bigint
);
-- A message that a turn sends.
create type {schema}.turn_message as (
    turn        integer,
    instance_id text,
    delay_ms    bigint,
    work_item   text
);
-- A key that a turn sets or, if the value is null, removes.
create type {schema}.turn_key_change as (
    turn               integer,
    instance_id        text,
    key                text,
    value              text,
    last_updated_at_ms bigint
);
-- An activity to ack, and the message with its result to the instance, if any.
create type {schema}.finished_activity as (
    instance_id text,
    id          bigint,
    lock_token  uuid,
    repeated    boolean,
    receiver    text,
    work_item   text
);
-- A message that is not sent by a turn.
create type {schema}.orchestration_message as (
    instance_id text,
    delay_ms    bigint,
    work_item   text
);
