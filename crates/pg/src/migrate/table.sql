-- Steps applied to this schema: one row per migration, and one per function with the hash of its current text.
create table {schema}.migration (
    component text not null,
    number integer check (number > 0),  -- null for a function
    name text not null,
    hash text not null,
    applied_at timestamptz not null default now()
);
create unique index migration_number on {schema}.migration (component, number) where number is not null;
create unique index migration_function on {schema}.migration (component, name) where number is null;
