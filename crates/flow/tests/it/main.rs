//! The engine against a real PostgreSQL.

mod batches;
mod bulk;
mod claims;
mod decisions;
mod failures;
mod fixture;
mod graphs;
mod interleaved;
mod manual;
mod meddling;
mod retries;
mod schema;
mod sound;
mod submissions;
