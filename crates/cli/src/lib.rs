//! The `reveille` program as a library, for its `main` and its tests.
//!
//! - [`config`] is everything that can be set, and the only reader of the environment.
//! - [`commands`] are `up`, `serve`, `migrate`, `doctor` and `durable`.
//! - [`http`] is the server that the products mount into.
//!
//! Nothing here is meant for other programs: the products are crates of their own.

pub mod commands;
pub mod config;
mod database_check;
mod error;
pub mod http;
mod logging;
mod products;
mod serve;
mod shutdown;
pub mod statistics;

pub use error::Error;
