//! Measures task engines, with the same code for Reveille in process, Reveille over HTTP, and the peers.
//!
//! A comparison is useful only if everything but the engine is the same: the steps of a task, the number of concurrent
//! tasks, when they are counted. That is defined here once, and the caller provides an [`Engine`]. A program that plays
//! a round is commanded like those of the `traffic` crate: see [`play`].
//!
//! A workload ([`Workload`]) and its figures ([`Outcome`]) are exchanged as JSON, so that a peer can be written in any
//! language.

mod latency;
mod progress;
mod rate;
mod round;
mod shape;

use std::collections::BTreeMap;
use std::future::Future;

use serde::{Deserialize, Serialize};

pub use progress::Progress;
pub use round::{Round, command, play};
pub use shape::{Shape, Step};
pub use traffic::{Failure, Latencies, READY, Result};

/// A workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// The graph of each task.
    pub shape: Shape,
    /// The number of workers.
    pub workers: usize,
    /// How many steps each worker may run at a time.
    pub slots: usize,
    /// What is measured.
    pub measure: Measure,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Throughput with a number of concurrent tasks.
    Rate {
        /// The number of concurrent tasks.
        concurrent: usize,
        /// The duration.
        seconds: usize,
    },
    /// One task after the other, from the call that submits it until its submitter knows its end.
    Latency {
        /// The number of tasks.
        samples: usize,
    },
}

/// The figures of a round.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The figures by name.
    pub figures: BTreeMap<String, f64>,
    /// The steps of each second, if throughput was measured.
    #[serde(default)]
    pub each_second: Vec<f64>,
}

impl Outcome {
    /// An outcome with these figures.
    pub fn of<'a>(figures: impl IntoIterator<Item = (&'a str, f64)>) -> Outcome {
        let figures = figures.into_iter().map(|(name, figure)| (name.to_owned(), figure)).collect();
        Outcome { figures, each_second: Vec::new() }
    }

    /// An outcome with the percentiles and the number of latencies.
    pub fn latencies(latencies: &Latencies) -> Outcome {
        let figure = |figure: Option<f64>| figure.unwrap_or(0.0);
        Outcome::of([
            ("p50_ms", figure(latencies.p50_ms)),
            ("p99_ms", figure(latencies.p99_ms)),
            ("max_ms", figure(latencies.max_ms)),
            ("samples", latencies.count as f64),
        ])
    }

    /// A figure; NaN if there is no such figure.
    pub fn figure(&self, name: &str) -> f64 {
        self.figures.get(name).copied().unwrap_or(f64::NAN)
    }
}

/// A task engine with running workers, which report every step to the [`Progress`].
pub trait Engine: Clone + Send + Sync + 'static {
    /// A task that was submitted.
    type Ticket: Send;

    /// Submits a task; returns when it is stored.
    fn submit(&self) -> impl Future<Output = Result<Self::Ticket>> + Send;

    /// Returns when the submitter knows that the task has ended.
    fn done(&self, ticket: Self::Ticket) -> impl Future<Output = Result<()>> + Send;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs in other languages read the workload, so its form is fixed.
    #[test]
    fn a_workload_has_a_fixed_form() -> Result<()> {
        let workload = Workload { shape: Shape::Chain, workers: 4, slots: 2, measure: Measure::Latency { samples: 9 } };
        let text = r#"{"shape":"chain","workers":4,"slots":2,"measure":{"latency":{"samples":9}}}"#;
        assert_eq!(serde_json::to_string(&workload)?, text);
        assert_eq!(serde_json::from_str::<Workload>(text)?, workload);
        Ok(())
    }
}
