//! One workload on one system, from set-up to tear-down.
//!
//! The parent process counts statements, memory and processor time of the measured parts only. So a round stops between
//! its parts, reports that, and continues on command.

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::probe::Probe;
use crate::{
    Broker, Outcome, Queue, Receiver, Result, Sender, Workload, backlog, crowd, dwell, latency, saturation, throughput,
};

/// The line that a program prints when it is ready to play its round.
pub const READY: &str = r#"{"ready":true}"#;

/// A workload that is ready to be measured.
enum Prepared<S, R> {
    Throughput(throughput::Prepared),
    Saturation(saturation::Prepared),
    Latency(latency::Prepared<S>),
    Dwell(dwell::Prepared),
    Crowd(crowd::Prepared<S>),
    Parked(Probe<S>),
    Backlog(backlog::Prepared<S, R>),
}

impl Workload {
    async fn prepare<B: Broker>(&self, broker: &B) -> Result<Prepared<B::Sender, B::Receiver>> {
        Ok(match self {
            Workload::Throughput(workload) => Prepared::Throughput(workload.prepare(broker).await?),
            Workload::Saturation(workload) => Prepared::Saturation(workload.prepare(broker).await?),
            Workload::Latency(workload) => Prepared::Latency(workload.prepare(broker).await?),
            Workload::Dwell(workload) => Prepared::Dwell(workload.prepare(broker).await?),
            Workload::Crowd(workload) => Prepared::Crowd(workload.prepare(broker).await?),
            Workload::Parked(workload) => Prepared::Parked(workload.prepare(broker).await?),
            Workload::Backlog(workload) => Prepared::Backlog(workload.prepare(broker).await?),
        })
    }

    async fn measure<S: Sender, R: Receiver>(&self, prepared: &mut Prepared<S, R>) -> Result<Outcome> {
        Ok(match (self, prepared) {
            (Workload::Throughput(_), Prepared::Throughput(ready)) => Outcome::Throughput(ready.measure().await?),
            (Workload::Saturation(workload), Prepared::Saturation(ready)) => {
                Outcome::Saturation(workload.measure(ready).await?)
            }
            (Workload::Latency(workload), Prepared::Latency(ready)) => Outcome::Latency(workload.measure(ready).await?),
            (Workload::Dwell(workload), Prepared::Dwell(ready)) => Outcome::Dwell(workload.measure(ready).await?),
            (Workload::Crowd(workload), Prepared::Crowd(ready)) => Outcome::Crowd(workload.measure(ready).await?),
            (Workload::Parked(workload), Prepared::Parked(ready)) => Outcome::Parked(workload.measure(ready).await?),
            (Workload::Backlog(workload), Prepared::Backlog(ready)) => Outcome::Backlog(workload.measure(ready).await?),
            _ => return Err("another workload was prepared".into()),
        })
    }

    /// The queues to remove afterwards.
    fn queues(&self) -> Vec<&Queue> {
        match self {
            Workload::Throughput(workload) => vec![&workload.queue],
            Workload::Saturation(workload) => vec![&workload.queue],
            Workload::Latency(workload) => [&workload.probe].into_iter().chain(&workload.beside).collect(),
            Workload::Dwell(workload) => vec![&workload.queue],
            Workload::Parked(workload) => vec![&workload.queue],
            Workload::Backlog(workload) => vec![&workload.queue],
            // Only Reveille is measured with crowds, and its queues are removed with their schema.
            Workload::Crowd(_) => Vec::new(),
        }
    }
}

/// Plays a round in a process that another process commands. Writes [`READY`] when the round is prepared. Then, for
/// each line of `orders`, measures and writes the [`Outcome`] as one line of JSON. Returns when `orders` ends.
///
/// # Errors
/// If preparing, measuring or removing fails.
pub async fn play<B: Broker>(
    workload: Workload,
    broker: B,
    mut orders: impl AsyncBufRead + Unpin,
    mut says: impl AsyncWrite + Unpin,
) -> Result<()> {
    let played = async {
        let mut prepared = workload.prepare(&broker).await?;
        say(&mut says, READY).await?;
        while orders.read_line(&mut String::new()).await? > 0 {
            let outcome = workload.measure(&mut prepared).await?;
            say(&mut says, &serde_json::to_string(&outcome)?).await?;
        }
        Ok(())
    }
    .await;
    for queue in workload.queues() {
        broker.close(queue).await?;
    }
    played
}

async fn say(to: &mut (impl AsyncWrite + Unpin), line: &str) -> Result<()> {
    to.write_all(format!("{line}\n").as_bytes()).await?;
    Ok(to.flush().await?)
}
