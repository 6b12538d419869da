//! The engine against a real PostgreSQL, by way of the job queue of `examples/jobs`.

#[path = "../../examples/jobs/jobs.rs"]
#[allow(unreachable_pub, dead_code)] // The product as the example has it; a test uses what it needs.
mod jobs;

mod claims;
mod clocks;
mod due;
mod fixture;
mod idle;
mod listener;
mod metrics;
mod mode;
mod outcomes;
mod panics;
mod prefetch;
mod process;
mod processes;
mod registry;
mod restart;
mod schema;
mod turns;
mod wake_ups;
mod writer;
