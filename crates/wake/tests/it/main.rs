//! The engine against a real PostgreSQL, with the job queue of `examples/jobs`.

#[path = "../../examples/jobs/jobs.rs"]
#[allow(unreachable_pub, dead_code)] // The example's product; a test uses part of it.
mod jobs;

mod attached;
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
mod poll_order;
mod process;
mod processes;
mod registry;
mod restart;
mod schema;
mod wake_ups;
mod writer;
