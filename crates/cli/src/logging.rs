//! Logs to stderr; stdout has only the output of a command.
//!
//! Secrets are not filtered here: they must not be logged at all. URLs are [`crate::config::SecretUrl`]s, and
//! statements are not logged.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::error::Error;

/// Starts logging with this filter. Once per process.
pub(crate) fn start(filter: &str) -> Result<(), Error> {
    let filter = EnvFilter::builder()
        .parse(filter)
        .map_err(|source| Error::Setting { key: "--log (RUST_LOG)", source: Box::new(source) })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    Ok(())
}
