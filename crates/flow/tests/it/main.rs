//! The engine against a real PostgreSQL.

mod batches;
mod claims;
mod decisions;
mod examples;
mod failures;
mod fixture;
mod graphs;
mod history;
mod limits;
mod reading;
mod retries;
mod schema;
mod submissions;
mod waiting;
mod worker_ends;
mod worker_graphs;
mod worker_strangers;
mod workers;
