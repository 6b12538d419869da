//! The engine against a real PostgreSQL.

mod acks;
mod configure;
mod dedup;
mod fixture;
mod order;
mod pops;
mod schema;
