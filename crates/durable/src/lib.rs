//! A PostgreSQL provider for duroxide that wakes instead of polling.
//!
//! [`PostgresProvider`] implements duroxide's `Provider` and `ProviderAdmin`: give it to a runtime and to clients. Beyond the contract it starts
//! orchestrations inside the application's own transaction ([`PostgresProvider::start_orchestration_in`]) and waits for results without asking
//! ([`PostgresProvider::wait_for_completion`]).
//!
//! Where to read on: what is stored in `migrations/`; how it is claimed and written in `functions/`, one file each with its reasons; how turns
//! are claimed in `turn.rs`, activities in `work.rs`; how acks survive failures in `ack.rs`; what is remembered of histories in `history.rs`.
//! Everything that waits, rings and groups is the engine's: see the crate `wake`.

mod ack;
mod admin;
mod blocked;
mod config;
mod contract;
mod error;
mod fetch;
mod figures;
mod gauge;
mod history;
pub mod import;
mod item;
mod lease;
mod message;
mod observe;
mod provider;
mod queries;
mod read;
mod retention;
mod send;
mod session;
mod stored;
mod text;
mod token;
mod transaction;
mod turn;
mod wait;
mod work;
mod write;

pub use config::{AggressiveOn, LongPollConfig, Migrations, Options, Strategy};
pub use error::{Error, Result};
pub use figures::{Figures, Watch};
pub use observe::{METRICS, Metric};
pub use provider::PostgresProvider;
