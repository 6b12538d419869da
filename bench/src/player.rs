//! The handle of a process that plays a round: it reports that it is ready, and measures on command.

use std::process::Stdio;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::Result;

/// How long a process may take to migrate a schema, to create its data, to connect up to ten thousand clients and to
/// warm up.
const READY_WITHIN: Duration = Duration::from_secs(240);
/// How long a round may take. Rounds are designed to take less than half of it; longer ones pass their own limit.
const PLAYED_WITHIN: Duration = Duration::from_secs(300);
/// How long a process may take to remove what it created.
const FINISHED_WITHIN: Duration = Duration::from_secs(20);

/// A process that is ready for its round. Killed when dropped.
pub(crate) struct Player {
    name: &'static str,
    process: Child,
    orders: ChildStdin,
    says: Lines<BufReader<ChildStdout>>,
}

impl Player {
    /// Starts a process and waits until it reports that it is ready.
    pub(crate) async fn start(name: &'static str, mut command: Command, ready: &str) -> Result<Player> {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let orders = process.stdin.take().ok_or("the process of a round has no stdin")?;
        let says = process.stdout.take().ok_or("the process of a round has no stdout")?;
        let mut player = Player { name, process, orders, says: BufReader::new(says).lines() };
        let said = player.hears(READY_WITHIN).await?;
        if said == ready { Ok(player) } else { Err(format!("{name} printed `{said}` instead of `{ready}`").into()) }
    }

    /// The process id; `None` if the process has ended.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.id()
    }

    /// Starts the measurement.
    pub(crate) async fn begin(&mut self) -> Result<()> {
        Ok(self.orders.write_all(b"\n").await?)
    }

    /// The outcome of the measurement.
    pub(crate) async fn outcome<O: DeserializeOwned>(&mut self) -> Result<O> {
        self.outcome_within(PLAYED_WITHIN).await
    }

    /// The outcome of a round that takes longer than others.
    pub(crate) async fn outcome_within<O: DeserializeOwned>(&mut self, patience: Duration) -> Result<O> {
        Ok(serde_json::from_str(&self.hears(patience).await?)?)
    }

    /// Starts the measurement and returns its outcome.
    pub(crate) async fn play<O: DeserializeOwned>(&mut self) -> Result<O> {
        self.begin().await?;
        self.outcome().await
    }

    /// Kills the process after its measurement: an orderly shutdown of its runtime would take a second.
    pub(crate) async fn end(mut self) -> Result<()> {
        self.kill().await
    }

    /// Kills the process, as a crash would.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        Ok(self.process.kill().await?)
    }

    /// Waits for the process to exit, so that it can remove what it created.
    pub(crate) async fn finish(mut self) -> Result<()> {
        drop(self.orders);
        match timeout(FINISHED_WITHIN, self.process.wait()).await {
            Ok(status) => match status?.success() {
                true => Ok(()),
                false => Err(format!("{} failed while it removed what it had created", self.name).into()),
            },
            Err(_) => Ok(self.process.kill().await?),
        }
    }

    async fn hears(&mut self, patience: Duration) -> Result<String> {
        let line = timeout(patience, self.says.next_line()).await;
        let line = line.map_err(|_| format!("{} did not answer in time", self.name))??;
        line.ok_or_else(|| format!("{} has ended without an answer", self.name).into())
    }
}
