//! Polling for a condition.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How long a condition may take before a test fails. Long, because a broker or a server that restarts on two busy
/// cores takes half a minute, and only a failure waits for all of it.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How often a condition is polled.
const POLL_EVERY: Duration = Duration::from_millis(5);

/// Waits until `is_so` returns true.
///
/// # Panics
/// If it does not within [`PATIENCE`].
pub async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let since = Instant::now();
    while !is_so().await {
        assert!(since.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        sleep(POLL_EVERY).await;
    }
}
