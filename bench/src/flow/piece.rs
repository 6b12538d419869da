//! What a process of ours plays: what everybody is measured with, and what only we are.

use serde::{Deserialize, Serialize};
use tasks::Workload;

/// What is measured.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Piece {
    /// The same for everybody.
    Shared(Workload),
    /// How soon a claim that waits has a step, once it is ready.
    Claim {
        /// Claims of each kind.
        samples: usize,
    },
    /// Has steps and never ends them, until it is killed.
    Hold {
        /// How many.
        tasks: usize,
        /// For how long each is its own without a word.
        lease_ms: u64,
    },
    /// Ends what somebody else held.
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
