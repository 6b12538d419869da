//! Waiting for what nobody announces.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How long what should happen at once may take before a test fails. Long, because two cores run many tests at once.
pub const PATIENCE: Duration = Duration::from_secs(25);
/// How often a state that nobody announces is looked at.
const GLANCE: Duration = Duration::from_millis(5);

/// Waits until `is_so`.
///
/// # Panics
/// If it is not within [`PATIENCE`].
pub async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let since = Instant::now();
    while !is_so().await {
        assert!(since.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        sleep(GLANCE).await;
    }
}
