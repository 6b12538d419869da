//! The workloads of a process of Reveille: those of all contenders, and those of Reveille alone.

use serde::{Deserialize, Serialize};
use tasks::Workload;

/// A workload.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Piece {
    /// A workload of all contenders.
    Shared(Workload),
    /// Measures how soon a waiting claim returns a step that became ready.
    Claim {
        /// Claims of each kind.
        samples: usize,
    },
    /// Holds steps without completing them, until it is killed.
    Hold {
        /// The number of tasks, of one step each.
        tasks: usize,
        /// The lease of each.
        lease_ms: u64,
    },
    /// Completes the steps of a killed process.
    Rescue {
        /// The number of tasks, of one step each.
        tasks: usize,
    },
    /// Submits tasks to a backlog, then runs as many.
    Backlog {
        /// Tasks of one step that wait before the measurement.
        backlog: usize,
        /// The number of tasks that are submitted, and then run.
        tasks: usize,
    },
    /// Workers that wait without work.
    Park {
        /// The number of namespaces.
        namespaces: usize,
        /// The duration.
        seconds: usize,
    },
    /// Runs chains for some time, in namespaces that are polled or event driven; then waits without tasks as long.
    Mode {
        /// The number of namespaces.
        namespaces: usize,
        /// Whether they are polled.
        polling: bool,
        /// The duration of each part.
        seconds: usize,
    },
}
