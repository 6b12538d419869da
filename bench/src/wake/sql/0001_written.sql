-- What the writers of the ringing workload write.
create table {schema}.written (
    id   bigint generated always as identity primary key,
    body text not null
);
