//! The engine against a real PostgreSQL.

mod acks;
mod configure;
mod dedup;
mod fixture;
mod groups;
mod order;
mod pops;
mod resources;
mod schema;
mod transactions;
