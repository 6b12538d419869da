//! Logs to stderr; stdout has the output of a command, and what a server says of itself while it starts and stops.
//!
//! Secrets are not filtered here: they must not be logged at all. URLs are [`crate::config::SecretUrl`]s, and
//! statements are not logged.

use std::{
    fmt::Display,
    io::IsTerminal as _,
    sync::atomic::{AtomicBool, Ordering},
};

use tracing_subscriber::{
    EnvFilter, Layer as _, fmt::layer, layer::SubscriberExt as _, registry, util::SubscriberInitExt as _,
};

use crate::{commands::say, config::LogFormat, error::Error, telemetry::Collected};

/// Whether the log is JSON. Set once, at the start.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Starts logging with this filter and format. Once per process.
/// Spans are collected if there is a layer for them.
pub(crate) fn start(filter: &str, format: LogFormat, spans: Option<Collected>) -> Result<(), Error> {
    let filter = EnvFilter::builder()
        .parse(filter)
        .map_err(|source| Error::Setting { key: "--log (RUST_LOG)", source: Box::new(source) })?;
    IS_JSON.store(format == LogFormat::Json, Ordering::Relaxed);
    let Some(spans) = spans else {
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
        match format {
            LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).init(),
            LogFormat::Json => log.json().flatten_event(true).init(),
        }
        return Ok(());
    };
    let log = layer().with_writer(std::io::stderr);
    let log = match format {
        LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).with_filter(filter).boxed(),
        LogFormat::Json => log.json().flatten_event(true).with_filter(filter).boxed(),
    };
    registry().with(vec![log, spans.filtered().boxed()]).init();
    Ok(())
}

/// Says a line about this process: on stdout for people, and as an event of the log for programs that read JSON, so that
/// they find nothing else.
pub(crate) fn announce(line: impl Display) {
    if !IS_JSON.load(Ordering::Relaxed) {
        return say(line);
    }
    let line = line.to_string();
    if !line.is_empty() {
        tracing::info!("{}", line.trim());
    }
}
