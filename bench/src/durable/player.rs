//! The process that plays a round of duroxide's workloads.

use reveille_pg::Schema;
use tokio::process::Command;
use workloads::{READY, Workload};

use super::arena::Arena;
use super::contender::Contender;
use crate::Result;
use crate::comparison::Named as _;
use crate::player::Player;

/// Connections of each contender: one per concurrent orchestration, so that none waits for a connection.
const CONNECTIONS: u32 = 20;

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
    command
        .args(["--schema", schema.name(), "--connections", &CONNECTIONS.to_string()])
        .args(["--workload", &serde_json::to_string(workload)?])
        // Not an argument: all users of the machine can read those.
        .env("DATABASE_URL", arena.server.url());
    Player::start(contender.name(), command, READY).await
}
