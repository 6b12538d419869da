//! The engine against a real PostgreSQL.

mod analytics;
mod batches;
mod claims;
mod decisions;
mod failures;
mod fixture;
mod graphs;
mod history;
mod listing;
mod reading;
mod retries;
mod schema;
mod submissions;
mod waiting;
