//! One workload on one provider, from set-up to tear-down.
//!
//! The parent process counts statements and WAL, around the measured part only. So a round stops twice: when it is
//! ready, and when it has measured; a program that plays one reports that, and continues on command.

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::stage::Stage;
use crate::{Chain, FanOut, Idle, Outcome, Result, Stress, System, Timer, WakeWorker, Workload};

/// What a program that plays a round says when it is ready.
pub const READY: &str = r#"{"ready":true}"#;

/// A workload that is ready to be measured.
pub struct Round {
    workload: Workload,
    stage: Stage,
}

impl Round {
    /// Starts the runtime on a provider with a new schema, and warms both up.
    ///
    /// # Errors
    /// The provider could not complete an orchestration.
    pub async fn prepare(workload: Workload, system: System) -> Result<Round> {
        let dispatchers = match &workload {
            Workload::FanOut(FanOut { dispatchers, .. })
            | Workload::Stress(Stress { dispatchers, .. })
            | Workload::Chain(Chain { dispatchers, .. })
            | Workload::Idle(Idle { dispatchers, .. })
            | Workload::WakeWorker(WakeWorker { dispatchers })
            | Workload::Timer(Timer { dispatchers, .. }) => Some(*dispatchers),
            Workload::WakeClient(_) => None,
        };
        // Where the load is high, all connections that it takes.
        let warm_up = match &workload {
            Workload::FanOut(FanOut { concurrent, .. }) | Workload::Stress(Stress { concurrent, .. }) => *concurrent,
            _ => 1,
        };
        let mut stage = match dispatchers {
            Some(dispatchers) => Stage::start(system.clone(), dispatchers).await,
            None => Stage::without_runtime(system.clone()),
        };
        stage.warm_up(warm_up).await?;
        if matches!(workload, Workload::Stress(_)) {
            // It brings a runtime of its own.
            stage.end().await;
            stage = Stage::without_runtime(system);
        }
        Ok(Round { workload, stage })
    }

    /// Performs the workload.
    ///
    /// # Errors
    /// Nothing could be measured. Single orchestrations that fail are part of the outcome.
    pub async fn measure(&self) -> Result<Outcome> {
        let stage = &self.stage;
        Ok(match &self.workload {
            Workload::FanOut(fan_out) => Outcome::FanOut(fan_out.measure(stage).await),
            Workload::Stress(stress) => Outcome::Stress(stress.measure(&stage.system).await?),
            Workload::Chain(chain) => Outcome::Chain(chain.measure(stage).await?),
            Workload::Idle(idle) => Outcome::Idle(idle.measure().await),
            // Its runtime goes on working until the round ends.
            Workload::WakeWorker(_) => Outcome::WakeWorker {},
            Workload::WakeClient(client) => Outcome::WakeClient(client.measure(stage).await),
            Workload::Timer(timer) => Outcome::Timer(timer.measure(stage).await),
        })
    }

    /// Ends the runtime. What is in the schema stays.
    pub async fn end(self) {
        self.stage.end().await;
    }
}

/// Plays a round as a program that another one commands: says [`READY`] when it is, measures after the next line of
/// `orders`, says the [`Outcome`] as one line of JSON, and ends the runtime after one line more.
///
/// # Errors
/// Nothing could be measured, or the orders ended before it.
pub async fn play(
    workload: Workload,
    system: System,
    mut orders: impl AsyncBufRead + Unpin,
    mut says: impl AsyncWrite + Unpin,
) -> Result<()> {
    let round = Round::prepare(workload, system).await?;
    say(&mut says, READY).await?;
    let read = orders.read_line(&mut String::new()).await?;
    let outcome = if read == 0 { Err("the parent process has ended".into()) } else { round.measure().await };
    if let Ok(outcome) = &outcome {
        say(&mut says, &serde_json::to_string(outcome)?).await?;
        // A line, or the end of all orders: both are its end.
        orders.read_line(&mut String::new()).await?;
    }
    round.end().await;
    outcome.map(drop)
}

async fn say(to: &mut (impl AsyncWrite + Unpin), line: &str) -> Result<()> {
    to.write_all(format!("{line}\n").as_bytes()).await?;
    Ok(to.flush().await?)
}
