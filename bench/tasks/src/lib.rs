//! What task engines are measured with: the same code for ours in process, ours over HTTP, and the peers.
//!
//! A comparison is useful only if everything but the engine is the same: the steps of a task, the number of concurrent
//! tasks, when they are counted. That is defined here once, and the caller provides an [`Engine`]. A program that plays
//! a round is commanded as those of the `traffic` crate are: see [`play`].
//!
//! A workload is data ([`Workload`]), and what came out are figures by name ([`Outcome`]): both travel as JSON, also to
//! a peer that is not written in Rust.

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

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// What the tasks look like.
    pub shape: Shape,
    /// Workers,
    pub workers: usize,
    /// and steps that each may run at a time.
    pub slots: usize,
    /// How.
    pub measure: Measure,
}

/// How it is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Throughput with a number of concurrent tasks, for some seconds.
    Rate {
        /// Concurrent tasks.
        concurrent: usize,
        /// Seconds.
        seconds: usize,
    },
    /// One task after the other, from the call that submits it until its submitter knows its end.
    Latency {
        /// Tasks.
        samples: usize,
    },
}

/// What came out: figures by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// By their names.
    pub figures: BTreeMap<String, f64>,
    /// Steps, second by second, of what runs for some.
    #[serde(default)]
    pub each_second: Vec<f64>,
}

impl Outcome {
    /// Of these.
    pub fn of<'a>(figures: impl IntoIterator<Item = (&'a str, f64)>) -> Outcome {
        let figures = figures.into_iter().map(|(name, figure)| (name.to_owned(), figure)).collect();
        Outcome { figures, each_second: Vec::new() }
    }

    /// The percentiles of latencies, and how many there were.
    pub fn latencies(latencies: &Latencies) -> Outcome {
        let figure = |figure: Option<f64>| figure.unwrap_or(0.0);
        Outcome::of([
            ("p50_ms", figure(latencies.p50_ms)),
            ("p99_ms", figure(latencies.p99_ms)),
            ("max_ms", figure(latencies.max_ms)),
            ("samples", latencies.count as f64),
        ])
    }

    /// One of them; not a number if there is no such.
    pub fn figure(&self, name: &str) -> f64 {
        self.figures.get(name).copied().unwrap_or(f64::NAN)
    }
}

/// A task engine whose workers run, and report every step to the [`Progress`].
pub trait Engine: Clone + Send + Sync + 'static {
    /// A task that was submitted.
    type Ticket: Send;

    /// Submits a task; returns when it is stored.
    fn submit(&self) -> impl Future<Output = Result<Self::Ticket>> + Send;

    /// Returns when the submitter can know its end.
    fn done(&self, ticket: Self::Ticket) -> impl Future<Output = Result<()>> + Send;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program in another language reads the workload: its form is fixed.
    #[test]
    fn a_workload_has_a_fixed_form() -> Result<()> {
        let workload = Workload { shape: Shape::Chain, workers: 4, slots: 2, measure: Measure::Latency { samples: 9 } };
        let text = r#"{"shape":"chain","workers":4,"slots":2,"measure":{"latency":{"samples":9}}}"#;
        assert_eq!(serde_json::to_string(&workload)?, text);
        assert_eq!(serde_json::from_str::<Workload>(text)?, workload);
        Ok(())
    }
}
