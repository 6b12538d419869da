//! The engine against a real PostgreSQL.

mod batches;
mod claims;
mod decisions;
mod failures;
mod fixture;
mod graphs;
mod retries;
mod schedules;
mod schema;
mod submissions;
