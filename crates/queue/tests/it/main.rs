//! The engine against a real PostgreSQL.

mod acks;
mod dedup;
mod fixture;
mod order;
mod pops;
mod schema;
mod transactions;
