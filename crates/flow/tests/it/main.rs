//! The engine against a real PostgreSQL.

mod afterwards;
mod analytics;
mod batches;
mod claims;
mod decisions;
mod failures;
mod fixture;
mod graphs;
mod history;
mod limits;
mod listing;
mod manual;
mod meddling;
mod reading;
mod retries;
mod schedules;
mod schema;
mod sound;
mod submissions;
mod waiting;
mod worker_ends;
mod worker_graphs;
mod worker_strangers;
mod workers;
