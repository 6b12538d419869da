//! `reveille durable`: orchestrations.

mod import;

use crate::{config::Durable, error::Error};

/// Runs one of its commands.
pub(super) async fn run(command: Durable) -> Result<(), Error> {
    match command {
        Durable::Import(args) => Box::pin(import::run(args)).await,
    }
}
