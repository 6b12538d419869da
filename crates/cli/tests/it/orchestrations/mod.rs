//! Orchestrations over HTTP and on the command line, with a real runtime in the test process.

mod api;
mod commands;
mod fixture;
mod pages;
mod pruning;
mod schema;
mod waiting;
