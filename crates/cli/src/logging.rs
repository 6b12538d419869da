//! Log lines on stderr, so that stdout stays what a command answers.
//!
//! Nothing here filters secrets out: none may get in. URLs are [`crate::config::SecretUrl`]s and statements are not logged.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::error::Error;

/// Starts logging what `filter` names. Once per process.
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
