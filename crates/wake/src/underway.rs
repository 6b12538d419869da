//! How much is under way, for whoever waits until nothing is.

use std::sync::Arc;

use tokio::sync::watch;

/// A count of things under way.
#[derive(Debug, Clone)]
pub(crate) struct Underway(Arc<watch::Sender<usize>>);

/// One thing under way, until it is dropped.
#[derive(Debug)]
pub(crate) struct Passage(Arc<watch::Sender<usize>>);

impl Underway {
    pub(crate) fn new() -> Underway {
        Underway(Arc::new(watch::Sender::new(0)))
    }

    pub(crate) fn begin(&self) -> Passage {
        self.0.send_modify(|count| *count += 1);
        Passage(self.0.clone())
    }

    /// Returns when nothing is under way.
    pub(crate) async fn ended(&self) {
        // It fails only if the sender is gone, which is here.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
