//! The provider against PostgreSQL.

mod consistency;
mod examples;
mod faults;
mod fixture;
mod idle;
mod import;
mod model;
mod observability;
mod races;
mod scenarios;
mod schema;
mod seed;
mod stress;
mod transactions;
mod validation;
