//! Rounds of all contenders on one server, in turns.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::sleep;
use workloads::{Outcome, Workload};

use super::contender::{Contender, DUROXIDE_PG, DUROXIDE_PG_OPT};
use super::player::start;
use crate::Result;
use crate::meter::{Cost, Meter};
use crate::player::Player;
use crate::processes::{family_seconds, seconds};
use crate::server::Server;

/// After this long without work a runtime is idle: polls that follow work within a second have ended.
pub(super) const IDLE_AFTER: Duration = Duration::from_secs(3);

/// The parameters of every workload.
pub(super) struct Arena<'a> {
    pub(super) server: &'a Server,
    /// The program of the peers; `None` if they are left out.
    pub(super) peers: Option<PathBuf>,
    pub(super) quick: bool,
    /// The number of rounds, if it is set.
    pub(super) rounds: Option<usize>,
}

/// The result of a round.
pub(super) struct Played {
    pub(super) outcome: Outcome,
    /// Its cost to the server; `None` for a contender without a database.
    pub(super) cost: Option<Cost>,
    pub(super) processor: Processor,
}

/// Processor seconds, of user and system together, between the command to begin and the outcome; not a number where
/// the system does not report them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Processor {
    /// Of the contender's process: the provider, duroxide's runtime, and the client that starts and waits.
    pub(super) process: f64,
    /// Of all processes of a private database server, including those that write its pages and its log.
    pub(super) server: f64,
}

impl Arena<'_> {
    /// One number in a quick run and another in a full one.
    pub(super) fn choose<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// How many rounds to play.
    pub(super) fn rounds(&self, quick: usize, full: usize) -> usize {
        self.rounds.unwrap_or(self.choose(quick, full))
    }

    /// These, and the peers unless they are left out.
    pub(super) fn with_peers(&self, own: &[Contender]) -> Vec<Contender> {
        let peers: &[Contender] = if self.peers.is_some() { &[DUROXIDE_PG, DUROXIDE_PG_OPT] } else { &[] };
        [own, peers].concat()
    }

    /// One round of one workload in a schema of its own.
    pub(super) async fn play(&self, contender: Contender, workload: &Workload) -> Result<Played> {
        let schema = self.server.new_schema()?;
        let mut player = start(self, contender, &schema, workload).await?;
        if matches!(workload, Workload::Idle(_)) {
            sleep(IDLE_AFTER).await;
        }
        let meter = if contender.has_database() { Some(Meter::start(self.server).await?) } else { None };
        let before = self.processor(&player);
        let outcome = player.play().await?;
        let processor = self.processor(&player).since(before);
        let cost = match meter {
            Some(meter) => Some(meter.read().await?),
            None => None,
        };
        player.end().await?;
        self.server.remove(&schema).await?;
        Ok(Played { outcome, cost, processor })
    }

    fn processor(&self, player: &Player) -> Processor {
        Processor {
            process: player.pid().and_then(seconds).unwrap_or(f64::NAN),
            server: self.server.pid().and_then(family_seconds).unwrap_or(f64::NAN),
        }
    }
}

impl Processor {
    fn since(self, before: Processor) -> Processor {
        Processor { process: self.process - before.process, server: self.server - before.server }
    }
}
