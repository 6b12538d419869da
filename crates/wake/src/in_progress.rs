//! Counts operations in progress, so that `close` can wait until there are none.

use std::sync::Arc;

use tokio::sync::watch;

/// A count of operations in progress.
#[derive(Debug, Clone)]
pub(crate) struct InProgress(Arc<watch::Sender<usize>>);

/// One operation; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct InProgressGuard(Arc<watch::Sender<usize>>);

impl InProgress {
    pub(crate) fn new() -> InProgress {
        InProgress(Arc::new(watch::Sender::new(0)))
    }

    pub(crate) fn begin(&self) -> InProgressGuard {
        self.0.send_modify(|count| *count += 1);
        InProgressGuard(self.0.clone())
    }

    /// Returns when no operation is in progress.
    pub(crate) async fn ended(&self) {
        // Fails only if the sender is gone; `self` holds it.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Drop for InProgressGuard {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
