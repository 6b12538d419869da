-- The executions that ended first, for a retention. Those that continued as new are not the end of their instance.
create index executions_ended on {schema}.executions (completed_at)
    where completed_at is not null and status <> 'ContinuedAsNew';
