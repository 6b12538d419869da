//! The workloads of our process: those of all contenders, and our own.

use serde::{Deserialize, Serialize};
use tasks::Workload;

/// What is measured.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Piece {
    /// The same for all contenders.
    Shared(Workload),
    /// How soon a claim that waits has a step, once it is ready.
    Claim {
        /// Claims of each kind.
        samples: usize,
    },
    /// Holds steps without completing them, until it is killed.
    Hold {
        /// How many.
        tasks: usize,
        /// The lease of each.
        lease_ms: u64,
    },
    /// Completes the steps of a killed process.
    Rescue {
        /// How many.
        tasks: usize,
    },
    /// Workers that wait in so many namespaces.
    Park {
        /// How many.
        namespaces: usize,
        /// For how long.
        seconds: usize,
    },
    /// Chains in namespaces that are polled, or not; then nothing for as long.
    Mode {
        /// How many.
        namespaces: usize,
        /// Whether they are.
        polling: bool,
        /// For how long.
        seconds: usize,
    },
}
