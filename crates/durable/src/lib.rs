//! A PostgreSQL provider for duroxide that wakes instead of polling.
//!
//! [`PostgresProvider`] implements duroxide's `Provider` and `ProviderAdmin`: pass it to a runtime and to clients. Beyond
//! the contract it starts orchestrations inside the application's own transaction
//! ([`PostgresProvider::start_orchestration_in`]) and waits for results without polling
//! ([`PostgresProvider::wait_for_completion`]).
//!
//! Where to read on: the tables in `db/migrations/`; the statements in `db/functions/` and `db/statements/`, each with
//! its reasons; claims of turns and activities in `claim/`; acks, messages and how they survive failures in `write/`;
//! histories and their cache in `read/`; `ProviderAdmin`, figures and retention in `admin/`. Waiting, notifying and
//! batching is done by the crate `wake`.

mod admin;
mod claim;
mod config;
mod contract;
mod error;
#[cfg(feature = "http")]
pub mod http;
pub mod import;
#[cfg(feature = "http")]
mod inspect;
mod observe;
#[cfg(feature = "http")]
mod operate;
mod provider;
mod queries;
mod read;
mod text;
mod token;
mod write;

pub use admin::{Figures, Watch};
pub use config::{AggressiveOn, LongPollConfig, Migrations, Options, Strategy};
pub use error::{Error, Result};
#[cfg(feature = "http")]
pub use inspect::Instances;
pub use observe::{METRICS, Metric};
pub use provider::PostgresProvider;

// The program in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
