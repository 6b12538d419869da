-- A schema as duroxide-pg leaves it: its tables, and an instance in every state. Times before now are fixed; leases, in milliseconds of the Unix
-- epoch, have ended long ago.
create table {schema}._duroxide_migrations (version bigint primary key, name text not null, applied_at timestamptz default now());
create table {schema}.instances (
    instance_id text primary key, orchestration_name text not null, orchestration_version text, parent_instance_id text,
    current_execution_id bigint not null default 1, created_at timestamptz not null, updated_at timestamptz not null,
    custom_status text, custom_status_version integer not null default 0
);
create table {schema}.executions (
    instance_id text not null, execution_id bigint not null, status text not null default 'Running', output text,
    started_at timestamptz not null, completed_at timestamptz,
    duroxide_version_major integer, duroxide_version_minor integer, duroxide_version_patch integer,
    primary key (instance_id, execution_id)
);
create table {schema}.history (
    instance_id text not null, execution_id bigint not null, event_id bigint not null, event_type text not null, event_data text not null,
    created_at timestamptz not null, primary key (instance_id, execution_id, event_id)
);
create table {schema}.orchestrator_queue (
    id bigserial primary key, instance_id text not null, work_item text not null, visible_at timestamptz not null,
    lock_token text, locked_until bigint, created_at timestamptz not null, attempt_count integer not null default 0
);
create table {schema}.worker_queue (
    id bigserial primary key, work_item text not null, visible_at timestamptz not null, lock_token text, locked_until bigint,
    created_at timestamptz not null, attempt_count integer not null default 0,
    instance_id text, execution_id bigint, activity_id bigint, session_id text, tag text
);
create table {schema}.instance_locks (instance_id text primary key, lock_token text not null, locked_until bigint not null, locked_at bigint not null);
create table {schema}.sessions (session_id text primary key, worker_id text not null, locked_until bigint not null, last_activity_at bigint not null);
create table {schema}.kv_store (
    instance_id text not null, key text not null, value text not null, execution_id bigint not null,
    last_updated_at_ms bigint not null default 0, primary key (instance_id, key)
);
create table {schema}.kv_delta (
    instance_id text not null, key text not null, value text, last_updated_at_ms bigint not null, primary key (instance_id, key)
);
insert into {schema}.instances values
    ('rest',               'Rest',    '1.0.0', null,     1, '2026-03-01 10:00:00+00', '2026-03-01 10:00:01+00', null, 0),
    ('greet',              'Greet',   '1.0.0', null,     1, '2026-03-01 10:00:02+00', '2026-03-01 10:00:03+00', 'waiting', 2),
    ('done',               'Greet',   '1.2.3', null,     1, '2026-03-01 10:00:04+00', '2026-03-01 10:00:05+00', null, 3),
    ('failed',             'Greet',   '1.0.0', null,     1, '2026-03-01 10:00:06+00', '2026-03-01 10:00:07+00', null, 0),
    ('rounds',             'Rounds',  '1.0.0', null,     3, '2026-03-01 10:00:08+00', '2026-03-01 10:00:09+00', null, 0),
    ('between',            'Rounds',  '1.0.0', null,     1, '2026-03-01 10:00:10+00', '2026-03-01 10:00:11+00', null, 0),
    ('parent',             'Parent',  '1.0.0', null,     1, '2026-03-01 10:00:12+00', '2026-03-01 10:00:13+00', null, 0),
    ('parent::sub::2',     'Child',   '1.0.0', 'parent', 1, '2026-03-01 10:00:14+00', '2026-03-01 10:00:15+00', null, 0),
    ('mail',               'Mail',    '1.0.0', null,     1, '2026-03-01 10:00:16+00', '2026-03-01 10:00:17+00', null, 0),
    ('long',               'Greet',   null,    null,     1, '2026-03-01 10:00:18+00', '2026-03-01 10:00:19+00', null, 0),
    ('odd' || chr(1) || '1', 'Greet', '1.0.0', null,     1, '2026-03-01 10:00:20+00', '2026-03-01 10:00:21+00', 'a' || chr(1), 1);
insert into {schema}.executions values
    ('rest', 1, 'Running', null, '2026-03-01 10:00:00+00', null, 0, 1, 32),
    ('greet', 1, 'Running', null, '2026-03-01 10:00:02+00', null, 0, 1, 32),
    ('done', 1, 'Completed', 'hello', '2026-03-01 10:00:04+00', '2026-03-01 10:00:05+00', 0, 1, 30),
    ('failed', 1, 'Failed', 'broken', '2026-03-01 10:00:06+00', '2026-03-01 10:00:07+00', null, null, null),
    ('rounds', 1, 'ContinuedAsNew', '1', '2026-03-01 10:00:08+00', null, 0, 1, 32),
    ('rounds', 2, 'ContinuedAsNew', '2', '2026-03-01 10:00:08+00', null, 0, 1, 32),
    ('rounds', 3, 'Running', null, '2026-03-01 10:00:09+00', null, 0, 1, 32),
    ('between', 1, 'ContinuedAsNew', '2', '2026-03-01 10:00:10+00', null, 0, 1, 32),
    ('parent', 1, 'Running', null, '2026-03-01 10:00:12+00', null, 0, 1, 32),
    ('parent::sub::2', 1, 'Running', null, '2026-03-01 10:00:14+00', null, 0, 1, 32),
    ('mail', 1, 'Running', null, '2026-03-01 10:00:16+00', null, 0, 1, 32),
    ('long', 1, 'Completed', 'hello', '2026-03-01 10:00:18+00', '2026-03-01 10:00:19+00', null, null, null),
    ('odd' || chr(1) || '1', 1, 'Completed', chr(1) || '0', '2026-03-01 10:00:20+00', '2026-03-01 10:00:21+00', 0, 1, 32);
insert into {schema}.history
select e.instance_id, e.execution_id, e.event_id, substring(e.rest from '"type":"(\w+)"'),
       format('{"event_id":%s,"source_event_id":null,"instance_id":"%s","execution_id":%s,"timestamp_ms":1772359200000,"duroxide_version":"0.1.32",%s}',
              e.event_id, replace(e.instance_id, chr(1), '\u0001'), e.execution_id,
              replace(e.rest, '…', '"version":"1.0.0","parent_instance":null,"parent_id":null')),
       '2026-03-01 10:00:00+00'::timestamptz + e.event_id * interval '1 s'
from (values
    ('rest', 1, 1, '"type":"OrchestrationStarted","name":"Rest","input":"",…'),
    ('rest', 1, 2, '"type":"TimerCreated","fire_at_ms":1772359201000'),
    ('greet', 1, 1, '"type":"OrchestrationStarted","name":"Greet","input":"ann",…'),
    ('greet', 1, 2, '"type":"CustomStatusUpdated","status":"waiting"'),
    ('greet', 1, 3, '"type":"ActivityScheduled","name":"Hello","input":"ann","tag":"polite"'),
    ('done', 1, 1, '"type":"OrchestrationStarted", "name":"Greet","input":"a\u0000b",…'),
    ('done', 1, 2, '"type":"OrchestrationCompleted","output":"hello"'),
    ('failed', 1, 1, '"type":"OrchestrationStarted","name":"Greet","input":"",…'),
    ('failed', 1, 2, '"type":"OrchestrationFailed","details":{"Application":{"kind":"OrchestrationFailed","message":"broken","retryable":false}}'),
    ('rounds', 1, 1, '"type":"OrchestrationStarted","name":"Rounds","input":"0",…'),
    ('rounds', 1, 2, '"type":"OrchestrationContinuedAsNew","input":"1"'),
    ('rounds', 2, 1, '"type":"OrchestrationStarted","name":"Rounds","input":"1",…'),
    ('rounds', 2, 2, '"type":"OrchestrationContinuedAsNew","input":"2"'),
    ('rounds', 3, 1, '"type":"OrchestrationStarted","name":"Rounds","input":"2",…'),
    ('rounds', 3, 2, '"type":"KeyValueSet","key":"round","value":"2","last_updated_at_ms":3'),
    ('rounds', 3, 3, '"type":"ExternalSubscribed","name":"go"'),
    ('between', 1, 1, '"type":"OrchestrationStarted","name":"Rounds","input":"1",…'),
    ('between', 1, 2, '"type":"OrchestrationContinuedAsNew","input":"2"'),
    ('parent', 1, 1, '"type":"OrchestrationStarted","name":"Parent","input":"",…'),
    ('parent', 1, 2, '"type":"SubOrchestrationScheduled","name":"Child","instance":"sub::2","input":"kit"'),
    ('parent::sub::2', 1, 1, '"type":"OrchestrationStarted","name":"Child","version":"1.0.0","input":"kit","parent_instance":"parent","parent_id":2,"parent_execution_id":1'),
    ('parent::sub::2', 1, 2, '"type":"ActivityScheduled","name":"Hello","input":"kit","session_id":"desk"'),
    ('mail', 1, 1, '"type":"OrchestrationStarted","name":"Mail","input":"",…'),
    ('mail', 1, 2, '"type":"ExternalSubscribedPersistent","name":"box"'),
    ('odd' || chr(1) || '1', 1, 1, '"type":"OrchestrationStarted","name":"Greet","input":"",…'),
    ('odd' || chr(1) || '1', 1, 2, '"type":"OrchestrationCompleted","output":"\u00010"')
) as e (instance_id, execution_id, event_id, rest)
union all
select 'long', 1, g, 'KeyValueSet', format('{"event_id":%s,"source_event_id":null,"instance_id":"long","execution_id":1,"timestamp_ms":1,'
    '"duroxide_version":"0.1.32","type":"KeyValueSet","key":"k","value":"%s","last_updated_at_ms":1}', g,
    repeat('x', case g when 60 then 70000 else 5 end)), '2026-03-01 10:00:18+00' from generate_series(1, 120) as g;
insert into {schema}.orchestrator_queue (instance_id, work_item, visible_at, created_at, attempt_count, lock_token, locked_until) values
    ('rest', '{"TimerFired": {"id": 2, "instance": "rest", "fire_at_ms": 1772359201000, "execution_id": 1}}', now() + interval '2 s', now(), 0, null, null),
    ('rounds', '{"ExternalRaised":{"instance":"rounds","name":"go","data":"\u0000on"}}', '2026-03-01 10:01:00+00', now(), 1, 'ended', 1772359200000),
    ('mail', '{"QueueMessage":{"instance":"mail","name":"box","data":"first"}}', '2026-03-01 10:01:01+00', now(), 0, null, null),
    ('mail', '{"QueueMessage":{"instance":"mail","name":"box","data":"second"}}', '2026-03-01 10:01:00+00', now(), 0, null, null),
    ('fresh', '{"StartOrchestration":{"instance":"fresh","orchestration":"Rest","input":"","version":null,"parent_instance":null,"parent_id":null,"execution_id":1}}',
        '2026-03-01 10:01:00+00', now(), 0, null, null),
    ('between', '{"ContinueAsNew": {"instance": "between", "orchestration": "Rounds", "input": "2", "version": "1.0.0", "carry_forward_events": []}}',
        '2026-03-01 10:01:00+00', now(), 0, null, null);
insert into {schema}.worker_queue (work_item, visible_at, created_at, attempt_count, instance_id, execution_id, activity_id, session_id, tag, lock_token, locked_until) values
    ('{"ActivityExecute": {"id": 2, "name": "Hello", "input": "kit", "instance": "parent::sub::2", "session_id": "desk", "execution_id": 1}}',
        '2026-03-01 10:01:00+00', now(), 0, 'parent::sub::2', 1, 2, 'desk', null, null, null),
    ('{"ActivityExecute": {"id": 3, "name": "Hello", "input": "ann", "instance": "greet", "tag": "polite", "execution_id": 1}}',
        '2026-03-01 10:01:00+00', now(), 2, 'greet', 1, 3, null, 'polite', 'ended', 1772359200000);
insert into {schema}.instance_locks values ('rounds', 'ended', 1772359200000, 1772359170000);
insert into {schema}.sessions values ('desk', 'worker-a', 1772359200000, 1772359190000);
insert into {schema}.kv_store values ('rounds', 'kept', 'a', 1, 1), ('rounds', 'removed', 'b', 1, 2), ('done', 'k' || chr(1), 'v' || chr(1), 1, 4);
insert into {schema}.kv_delta values ('rounds', 'round', '2', 3), ('rounds', 'removed', null, 4);
