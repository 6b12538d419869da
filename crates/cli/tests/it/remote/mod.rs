//! Commands that speak to a running server.

pub(crate) mod fixture;
mod group;
mod queue;
mod reach;
mod schedule;
mod task;
mod tmux;
mod token;
mod top;
