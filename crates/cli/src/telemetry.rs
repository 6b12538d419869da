//! Traces and metrics for a collector, over OTLP.
//!
//! Off by default, and then without cost: the events that are spans are disabled where they are written. OTLP over HTTP
//! may carry JSON, so this needs no crate beyond those that the commands use: the spans are few fields, and the metrics
//! are those of `GET /metrics`.
//!
//! - Nothing waits for the collector. Spans that it does not take in time are dropped and counted.
//! - An idle server sends no span. Metrics are sent once a minute, which sends the database no statement.

mod export;
mod metrics;
mod span;

use std::time::Duration;

use tokio::{sync::oneshot, time::timeout};

pub(crate) use export::Exporter;
use export::Item;
pub(crate) use metrics::export as export_metrics;
pub(crate) use span::{Collected, nanoseconds, request};

/// How long the end of the process may wait for the last spans.
const FLUSH_WITHIN: Duration = Duration::from_secs(2);

/// Where spans go. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Telemetry(tokio::sync::mpsc::Sender<Item>);

impl Telemetry {
    /// Sends what was recorded so far, for the end of the process.
    pub(crate) async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        let flush = async {
            if self.0.send(Item::Flush(done)).await.is_ok() {
                let _ = flushed.await;
            }
        };
        let _ = timeout(FLUSH_WITHIN, flush).await;
    }
}
