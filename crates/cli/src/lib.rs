//! The `reveille` program as a library, for its `main` and its tests.
//!
//! - [`config`] has all settings, and is the only module that reads the environment.
//! - [`client`] and [`terminal`] are for commands that speak to a running server; [`exit`] has the exit codes.
//! - [`commands`] are `up`, `serve`, `migrate`, `doctor` and `durable`.
//! - [`http`] is the server into which the products are mounted.
//!
//! It is not for other programs: the products are crates of their own.

pub mod client;
pub mod commands;
pub mod config;
mod database_check;
mod demo;
mod error;
pub mod exit;
pub mod http;
mod logging;
mod overview;
mod products;
mod serve;
mod shutdown;
pub mod statistics;
mod telemetry;
pub mod terminal;

pub use error::Error;
