//! Runs a round in a process that another process commands.

use std::sync::Arc;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::{Engine, Measure, Outcome, Progress, READY, Result, Workload, latency, rate};

/// Steps that run before the measurement, at least those of one task: connections are opened and statements prepared.
const WARM_UP: usize = 40;

/// A round that is ready and can be measured, once or several times.
pub trait Round {
    /// Runs the measurement.
    fn measure(&mut self) -> impl Future<Output = Result<Outcome>>;
}

struct Shared<E> {
    workload: Workload,
    engine: E,
    progress: Arc<Progress>,
}

impl<E: Engine> Round for Shared<E> {
    async fn measure(&mut self) -> Result<Outcome> {
        match self.workload.measure {
            Measure::Rate { concurrent, seconds } => {
                rate::measure(&self.engine, &self.progress, concurrent, seconds).await
            }
            Measure::Latency { samples } => latency::measure(&self.engine, &self.progress, samples).await,
        }
    }
}

/// Plays a round of an engine whose workers report progress: see [`command`].
///
/// # Errors
/// If the measurement fails.
pub async fn play(
    workload: Workload,
    engine: impl Engine,
    progress: Arc<Progress>,
    orders: impl AsyncBufRead + Unpin,
    says: impl AsyncWrite + Unpin,
) -> Result<()> {
    latency::measure(&engine, &progress, (WARM_UP / workload.shape.size()).max(1)).await?;
    command(Shared { workload, engine, progress }, orders, says).await
}

/// Writes [`READY`]. Then, for each line of `orders`, measures and writes the [`Outcome`] as one line of JSON. Returns
/// when `orders` ends.
///
/// # Errors
/// If the measurement fails.
pub async fn command(
    mut round: impl Round,
    mut orders: impl AsyncBufRead + Unpin,
    mut says: impl AsyncWrite + Unpin,
) -> Result<()> {
    say(&mut says, READY).await?;
    while orders.read_line(&mut String::new()).await? > 0 {
        let outcome = round.measure().await?;
        say(&mut says, &serde_json::to_string(&outcome)?).await?;
    }
    Ok(())
}

async fn say(to: &mut (impl AsyncWrite + Unpin), line: &str) -> Result<()> {
    to.write_all(format!("{line}\n").as_bytes()).await?;
    Ok(to.flush().await?)
}
