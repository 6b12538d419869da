//! What duroxide providers are measured with: the same code for ours, for the peers and for a model in memory.
//!
//! The speed of a provider shows only under duroxide's runtime. A comparison is useful only if everything but the
//! provider is the same, so the workloads, their runtime options and their clocks are defined here once, and the caller
//! provides a provider. Peers that cannot be linked into one program with ours run as programs of their own; [`play`]
//! has the commands by which such a program begins and ends.
//!
//! Workloads ([`Workload`]) and their results ([`Outcome`]) are data, sent as JSON.

mod chain;
mod fan_out;
mod idle;
mod latencies;
mod millis;
mod pump;
mod round;
mod script;
mod signals;
mod stage;
mod stress;
mod system;
mod timer;
mod timestamps;
mod wake;

use serde::{Deserialize, Serialize};

pub use chain::{Chain, ChainOutcome};
pub use fan_out::{FanOut, FanOutOutcome, Reads, Waits};
pub use idle::{Idle, IdleOutcome};
pub use latencies::Latencies;
pub use round::{READY, Round, play};
pub use stage::Dispatchers;
pub use stress::{Stress, StressOutcome};
pub use system::{System, Wait};
pub use timer::{Timer, TimerOutcome};
pub use wake::{WakeClient, WakeOutcome, WakeWorker};

/// An error that ends a round.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
/// A result whose error ends the round.
pub type Result<T> = std::result::Result<T, Failure>;

/// What is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// Many orchestrations of some parallel activities.
    FanOut(FanOut),
    /// duroxide's own stress test.
    Stress(Stress),
    /// One orchestration of many activities, one after the other.
    Chain(Chain),
    /// A period without work.
    Idle(Idle),
    /// The process whose runtime is idle until another process starts an orchestration.
    WakeWorker(WakeWorker),
    /// The process that starts orchestrations with pauses.
    WakeClient(WakeClient),
    /// Orchestrations that sleep.
    Timer(Timer),
}

/// The result of the [`Workload`] of the same name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Of [`Workload::FanOut`].
    FanOut(FanOutOutcome),
    /// Of [`Workload::Stress`].
    Stress(StressOutcome),
    /// Of [`Workload::Chain`].
    Chain(ChainOutcome),
    /// Of [`Workload::Idle`].
    Idle(IdleOutcome),
    /// Of [`Workload::WakeWorker`]: its client has the figures.
    WakeWorker {},
    /// Of [`Workload::WakeClient`].
    WakeClient(WakeOutcome),
    /// Of [`Workload::Timer`].
    Timer(TimerOutcome),
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The parent process writes the workload as JSON and reads the outcome: the form is fixed, and unknown
    /// fields and values are errors. Compared as text, in both directions.
    #[test]
    fn workloads_and_outcomes_have_a_fixed_form() {
        let fan_out = FanOut { activity_delay: Duration::from_millis(10), ..FanOut::new(500, Dispatchers::same(4)) };
        let text = r#"{"fan_out":{"orchestrations":500,"activities":5,"concurrent":20,"dispatchers":{"orchestrations":4,"workers":4},"activity_delay_ms":10,"waits":"client"}}"#;
        assert_eq!(serde_json::to_string(&Workload::FanOut(fan_out)).unwrap(), text);
        assert_eq!(serde_json::from_str::<Workload>(text).unwrap(), Workload::FanOut(fan_out));
        let by_signal = Workload::FanOut(FanOut { waits: Waits::Signal, ..fan_out });
        assert_eq!(serde_json::from_str::<Workload>(&text.replace("client", "signal")).unwrap(), by_signal);
        let unsaid = text.replace(r#","waits":"client""#, "");
        assert_eq!(serde_json::from_str::<Workload>(&unsaid).unwrap(), Workload::FanOut(fan_out));
        assert!(serde_json::from_str::<Workload>(&text.replace("client", "waiter")).is_err());
        assert!(serde_json::from_str::<Workload>(r#"{"idle":{"period_ms":1,"dispatchers":{}}}"#).is_err());
        assert!(serde_json::from_str::<Workload>(&text.replace("concurrent", "inflight")).is_err());
        assert_eq!(serde_json::to_string(&Outcome::WakeWorker {}).unwrap(), r#"{"wake_worker":{}}"#);
    }
}
