//! The engine against a real PostgreSQL.

mod afterwards;
mod batches;
mod claims;
mod decisions;
mod failures;
mod fixture;
mod graphs;
mod limits;
mod retries;
mod schema;
mod submissions;
