//! The provider against PostgreSQL.

mod agreement;
mod attached;
mod bounded;
mod caching;
mod calls;
mod consistency;
mod crowds;
mod examples;
mod faults;
mod fixture;
mod idle;
mod import;
mod observability;
mod pipelining;
mod psql;
mod races;
mod retention;
mod scenarios;
mod schema;
mod seed;
mod starting;
mod stress;
mod transactions;
mod validation;
