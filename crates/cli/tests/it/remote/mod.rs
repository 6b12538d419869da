//! Commands that speak to a running server.

mod fixture;
mod group;
mod queue;
mod reach;
mod schedule;
mod task;
mod tmux;
mod top;
