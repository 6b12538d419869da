//! Real faults: the server crashes, connections are cut at the worst moment, processes die, rows are
//! corrupted or held by others. Whatever happens, an orchestration goes on where it was; it fails by its own code,
//! never by the fault.

mod answers;
mod clocks;
mod corrupted;
mod dropped;
mod exhausted;
mod full;
mod killed;
mod leases;
mod load;
mod locked;
mod process;
mod texts;
mod unavailable;
mod unreadable;

use std::time::Duration;

use duroxide::RuntimeOptions;
use reveille_durable::{LongPollConfig, Options, PostgresProvider};
use reveille_pg::Schema;

use crate::fixture::{PATIENCE, eventually};

/// The lease of work that should not be redelivered: far beyond [`PATIENCE`], so that nothing in time can have come by
/// the end of one.
const LEASE: Duration = Duration::from_secs(120);
/// The lease of work that should be: a claim without a response is redelivered when it ends.
const SHORT_LEASE: Duration = Duration::from_secs(2);

/// Long polling in a schema.
fn options(schema: &Schema) -> Options {
    Options { schema: Some(schema.name().to_owned()), long_poll: LongPollConfig::enabled(), ..Options::default() }
}

/// A runtime of four dispatchers of each kind, whose lost claims come back soon.
fn four_each() -> RuntimeOptions {
    RuntimeOptions {
        orchestration_concurrency: 4,
        worker_concurrency: 4,
        orchestrator_lock_timeout: SHORT_LEASE,
        worker_lock_timeout: SHORT_LEASE,
        ..RuntimeOptions::default()
    }
}

/// Waits until the listener is connected.
async fn connected(provider: &PostgresProvider) {
    eventually("the listener hears", async || provider.health().is_connected()).await;
}
