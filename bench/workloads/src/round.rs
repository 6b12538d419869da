//! One workload on one provider, from set-up to tear-down.
//!
//! The parent process counts statements, WAL and processor time of the measured part only. So a round stops twice, when
//! it is ready and when it has measured; a program that plays one reports that, and continues on command.

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::stage::Stage;
use crate::{Chain, FanOut, Idle, Outcome, Result, Stress, System, Timer, WakeWorker, Workload};

/// The line that a program prints when its round is ready.
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
        // Under high load: as many as are in progress later, so that all connections are open.
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
            // It starts a runtime of its own.
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

    /// Ends the runtime. The schema keeps its content.
    pub async fn end(self) {
        self.stage.end().await;
    }
}

/// Plays a round as a program with a parent process: prints [`READY`], measures after the next line of `commands`,
/// prints the [`Outcome`] as one line of JSON, and ends the runtime after one more line.
///
/// # Errors
/// Nothing could be measured, or the commands ended before that.
pub async fn play(
    workload: Workload,
    system: System,
    mut commands: impl AsyncBufRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
) -> Result<()> {
    let round = Round::prepare(workload, system).await?;
    print(&mut output, READY).await?;
    let read = commands.read_line(&mut String::new()).await?;
    let outcome = if read == 0 { Err("the parent process has ended".into()) } else { round.measure().await };
    if let Ok(outcome) = &outcome {
        print(&mut output, &serde_json::to_string(outcome)?).await?;
        // Either a line or the end of the input ends the round.
        commands.read_line(&mut String::new()).await?;
    }
    round.end().await;
    outcome.map(drop)
}

async fn print(to: &mut (impl AsyncWrite + Unpin), line: &str) -> Result<()> {
    to.write_all(format!("{line}\n").as_bytes()).await?;
    Ok(to.flush().await?)
}
