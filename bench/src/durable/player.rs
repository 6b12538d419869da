//! The handle of a process that plays a round.

use std::process::Stdio;
use std::time::Duration;

use pg::Schema;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;
use workloads::{Outcome, READY, Workload};

use super::arena::Arena;
use super::contender::Contender;
use crate::Result;

/// Connections of everybody: one per orchestration in flight, so that nobody waits for one.
const CONNECTIONS: u32 = 20;
/// How long it may take to migrate a schema and to warm up: the peers warm up for some seconds.
const READY_WITHIN: Duration = Duration::from_secs(90);
/// How long a round may take. None is meant to take half of it.
const PLAYED_WITHIN: Duration = Duration::from_secs(300);

/// A process that is ready for its round. Ends when dropped.
pub(super) struct Player {
    name: &'static str,
    process: Child,
    orders: ChildStdin,
    says: Lines<BufReader<ChildStdout>>,
}

impl Player {
    /// Starts it and waits until it is ready.
    pub(super) async fn start(
        arena: &Arena<'_>,
        contender: Contender,
        schema: &Schema,
        workload: &Workload,
    ) -> Result<Player> {
        let mut command = match contender {
            Contender::Own(own) => {
                let mut command = Command::new(std::env::current_exe()?);
                command.args(["durable-round", "--system", &own.argument()]);
                command
            }
            Contender::Peer(peer) => {
                let mut command = Command::new(arena.peers.as_ref().ok_or("the peers do not take part")?);
                command.args(["--provider", peer.name()]);
                command
            }
        };
        let mut process = command
            .args(["--schema", schema.name(), "--connections", &CONNECTIONS.to_string()])
            .args(["--workload", &serde_json::to_string(workload)?])
            // Not an argument: those can be read by everybody on the machine.
            .env("DATABASE_URL", arena.server.url())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let orders = process.stdin.take().ok_or("the process of a round has no stdin")?;
        let says = process.stdout.take().ok_or("the process of a round has no stdout")?;
        let mut player = Player { name: contender.name(), process, orders, says: BufReader::new(says).lines() };
        match player.hears(READY_WITHIN).await?.as_str() {
            READY => Ok(player),
            other => Err(format!("{} said `{other}` instead of being ready", player.name).into()),
        }
    }

    /// Has it begin.
    pub(super) async fn begin(&mut self) -> Result<()> {
        Ok(self.orders.write_all(b"\n").await?)
    }

    /// What came out.
    pub(super) async fn outcome(&mut self) -> Result<Outcome> {
        Ok(serde_json::from_str(&self.hears(PLAYED_WITHIN).await?)?)
    }

    /// Has it begin, and answers what came out.
    pub(super) async fn play(&mut self) -> Result<Outcome> {
        self.begin().await?;
        self.outcome().await
    }

    /// Ends it at once: a runtime that ends in order takes a second for it, and nothing of it is measured any more.
    pub(super) async fn end(mut self) -> Result<()> {
        Ok(self.process.kill().await?)
    }

    async fn hears(&mut self, patience: Duration) -> Result<String> {
        let line = timeout(patience, self.says.next_line()).await;
        let line = line.map_err(|_| format!("{} does not answer", self.name))??;
        line.ok_or_else(|| format!("{} has ended without an answer", self.name).into())
    }
}
