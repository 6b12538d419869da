//! Measures message queues, with the same code for Reveille over HTTP, Reveille as a library, and the peers.
//!
//! A comparison is useful only if everything but the queue is the same: the messages, the number of connections, the
//! backlog, when messages are counted. That is defined here once, and the caller provides a [`Broker`]. Peers that
//! cannot be linked into one program with Reveille are programs of their own; [`play`] takes the commands with which a
//! parent process controls such a program.
//!
//! A workload ([`Workload`]) and its result ([`Outcome`]) are exchanged as JSON.

mod backlog;
mod broker;
mod crowd;
mod dwell;
mod latencies;
mod latency;
mod load;
mod note;
mod parked;
mod probe;
mod round;
mod saturation;
mod throughput;

use serde::{Deserialize, Serialize};

pub use backlog::{Backlog, BacklogOutcome};
pub use broker::{Broker, Queue, Receiver, Sender};
pub use crowd::{Crowd, CrowdOutcome};
pub use dwell::{Dwell, DwellOutcome};
pub use latencies::Latencies;
pub use latency::{Latency, LatencyOutcome};
pub use note::{BYTES, Note};
pub use parked::{Parked, ParkedOutcome};
pub use round::{READY, play};
pub use saturation::{Saturation, SaturationOutcome};
pub use throughput::{Throughput, ThroughputOutcome};

/// An error that ends a round.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
/// The result of what may end a round.
pub type Result<T> = std::result::Result<T, Failure>;

/// A workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// The throughput.
    Throughput(Throughput),
    /// The rate of receivers while senders send as fast as they can.
    Saturation(Saturation),
    /// How soon a waiting receiver gets a message.
    Latency(Latency),
    /// How long messages wait in many partitions.
    Dwell(Dwell),
    /// Many receivers that wait without messages; then all of them are served.
    Crowd(Crowd),
    /// Single messages, while many receivers wait.
    Parked(Parked),
    /// The cost of a message while a backlog waits.
    Backlog(Backlog),
}

/// The result of a [`Workload`], under the same name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Of [`Workload::Throughput`].
    Throughput(ThroughputOutcome),
    /// Of [`Workload::Saturation`].
    Saturation(SaturationOutcome),
    /// Of [`Workload::Latency`].
    Latency(LatencyOutcome),
    /// Of [`Workload::Dwell`].
    Dwell(DwellOutcome),
    /// Of [`Workload::Crowd`], once after waiting and once after serving.
    Crowd(CrowdOutcome),
    /// Of [`Workload::Parked`].
    Parked(ParkedOutcome),
    /// Of [`Workload::Backlog`].
    Backlog(BacklogOutcome),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parent process writes the workload as JSON and reads the outcome, so the form is fixed, and unknown fields
    /// are rejected. Compared as text, in both directions.
    #[test]
    fn workloads_and_outcomes_have_a_fixed_form() {
        let workload = Workload::Throughput(Throughput { queue: Queue::new("q", 100, 10), seconds: 5 });
        let text = r#"{"throughput":{"queue":{"name":"q","partitions":100,"batch":10,"groups":1,"senders":4,"receivers":4},"seconds":5}}"#;
        assert_eq!(serde_json::to_string(&workload).unwrap(), text);
        assert_eq!(serde_json::from_str::<Workload>(text).unwrap(), workload);
        assert!(serde_json::from_str::<Workload>(&text.replace("partitions", "partition")).is_err());
    }
}
