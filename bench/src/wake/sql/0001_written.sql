-- The rows of the notifying workload.
create table {schema}.written (
    id   bigint generated always as identity primary key,
    body text not null
);
