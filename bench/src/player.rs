//! The handle of a process that plays a round: it reports that it is ready, and measures on command.

use std::process::Stdio;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::Result;

/// How long it may take to migrate a schema, to make what it needs and to warm up: ten thousand clients connect first.
const READY_WITHIN: Duration = Duration::from_secs(240);
/// How long a round may take. None is meant to take half of it, unless it says so.
const PLAYED_WITHIN: Duration = Duration::from_secs(300);
/// How long it may take to leave everything as it was.
const FINISHED_WITHIN: Duration = Duration::from_secs(20);

/// A process that is ready for its round. Ends when dropped.
pub(crate) struct Player {
    name: &'static str,
    process: Child,
    orders: ChildStdin,
    says: Lines<BufReader<ChildStdout>>,
}

impl Player {
    /// Starts it and waits until it says that it is ready.
    pub(crate) async fn start(name: &'static str, mut command: Command, ready: &str) -> Result<Player> {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let orders = process.stdin.take().ok_or("the process of a round has no stdin")?;
        let says = process.stdout.take().ok_or("the process of a round has no stdout")?;
        let mut player = Player { name, process, orders, says: BufReader::new(says).lines() };
        let said = player.hears(READY_WITHIN).await?;
        if said == ready { Ok(player) } else { Err(format!("{name} said `{said}` instead of being ready").into()) }
    }

    /// Its process; `None` if it has ended.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.id()
    }

    /// Has it begin.
    pub(crate) async fn begin(&mut self) -> Result<()> {
        Ok(self.orders.write_all(b"\n").await?)
    }

    /// What came out.
    pub(crate) async fn outcome<O: DeserializeOwned>(&mut self) -> Result<O> {
        self.outcome_within(PLAYED_WITHIN).await
    }

    /// What came out of a round that takes longer than others.
    pub(crate) async fn outcome_within<O: DeserializeOwned>(&mut self, patience: Duration) -> Result<O> {
        Ok(serde_json::from_str(&self.hears(patience).await?)?)
    }

    /// Has it begin, and answers what came out.
    pub(crate) async fn play<O: DeserializeOwned>(&mut self) -> Result<O> {
        self.begin().await?;
        self.outcome().await
    }

    /// Ends it at once: a runtime that ends in order takes a second for it, and nothing of it is measured any more.
    pub(crate) async fn end(mut self) -> Result<()> {
        self.kill().await
    }

    /// Ends it at once, as a crash would.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        Ok(self.process.kill().await?)
    }

    /// Lets it end by itself, so that it can remove what it made.
    pub(crate) async fn finish(mut self) -> Result<()> {
        drop(self.orders);
        match timeout(FINISHED_WITHIN, self.process.wait()).await {
            Ok(status) => match status?.success() {
                true => Ok(()),
                false => Err(format!("{} has failed at its end", self.name).into()),
            },
            Err(_) => Ok(self.process.kill().await?),
        }
    }

    async fn hears(&mut self, patience: Duration) -> Result<String> {
        let line = timeout(patience, self.says.next_line()).await;
        let line = line.map_err(|_| format!("{} does not answer", self.name))??;
        line.ok_or_else(|| format!("{} has ended without an answer", self.name).into())
    }
}
