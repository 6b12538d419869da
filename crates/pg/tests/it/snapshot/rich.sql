-- One of everything that a snapshot describes, with what the versions of PostgreSQL keep in different ways.
create unlogged table {schema}.draft (text text);
create type {schema}.colour as enum ('red', 'blue');
create sequence {schema}.ticket as integer cycle;
create type {schema}.point as (x float8, "Label" varchar(20));

create table {schema}.owner (
    id    bigint generated always as identity primary key with (fillfactor = 80),
    name  text collate "C" not null unique,
    shout text generated always as (upper(name)) stored
);
create table {schema}.note (
    id      uuid not null primary key,
    owner   bigint references {schema}.owner on delete cascade,
    number  integer not null default nextval('{schema}.ticket'),
    colour  {schema}.colour not null default 'red',
    tags    text[] not null default '{}' check (cardinality(tags) < 5),
    keep    interval not null default interval '1 day 2 hours',
    dropped integer,
    body    bytea not null,
    "Odd"   numeric(10, 2)
) with (fillfactor = 70, autovacuum_vacuum_threshold = 5000, toast.autovacuum_enabled = off);
alter table {schema}.note drop column dropped;
alter table {schema}.note alter column body set storage external;
create index note_due on {schema}.note (owner, number desc) include (colour) where colour = 'red';
create table {schema}.log (at timestamptz not null, note text, primary key (at)) partition by range (at);
create table {schema}.log_2030 partition of {schema}.log
    for values from ('2030-01-01 00:00+00') to ('2031-01-01 00:00+00');
create index log_note on {schema}.log (note);
create function {schema}.tell() returns trigger
language plpgsql
as $$
begin
    perform pg_notify(tg_argv[0], {schema_text});
    return null;
end
$$;
create trigger note_told after insert on {schema}.note for each statement
    when (current_setting('search_path') <> 'mine') execute function {schema}.tell('told');
alter table {schema}.note disable trigger note_told;
create function {schema}.find(wanted {schema}.colour, most integer default 10) returns setof {schema}.note
language sql stable strict rows 10 set search_path = mine
as $$
    select * from {schema}.note where colour = wanted limit most
$$;
create procedure {schema}.find() language plpgsql security definer as $$ begin end $$;
