//! `reveille serve` as a process of its own.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use reveille_pg::Schema;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::Result;
use crate::server::Server;

/// How long the server may take to migrate the schema and to become ready.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// The text before the address in the server's output.
const LISTENS: &str = "listens on http://";

/// A running server. Killed when dropped.
pub(crate) struct Serve {
    process: Child,
    address: SocketAddr,
}

impl Serve {
    /// Starts the program and waits until it is ready.
    pub(crate) async fn start(program: &PathBuf, server: &Server, schema: &Schema) -> Result<Serve> {
        let mut process = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--schema", schema.name()])
            .args(["--log", "error"])
            // Not an argument: all users of the machine can read arguments.
            .env("DATABASE_URL", server.url())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut says = BufReader::new(process.stdout.take().ok_or("the server has no stdout")?).lines();
        let ready = timeout(READY_WITHIN, ready(&mut says)).await;
        Ok(Serve { process, address: ready.map_err(|_| "the server was not ready in time")?? })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.id()
    }

    /// Kills the server.
    pub(crate) async fn end(mut self) -> Result<()> {
        Ok(self.process.kill().await?)
    }
}

async fn ready(says: &mut Lines<BufReader<ChildStdout>>) -> Result<SocketAddr> {
    let mut address = None;
    while let Some(line) = says.next_line().await? {
        if let Some((_, at)) = line.split_once(LISTENS) {
            address = Some(at.trim().parse()?);
        }
        if line == "ready" || line.starts_with("ready:") {
            return address.ok_or_else(|| "the server printed no address".into());
        }
    }
    Err("the server has ended before it was ready".into())
}
