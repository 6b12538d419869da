//! The systems that are measured.

use clap::ValueEnum;
use workloads::Workload;

use crate::comparison::{self, Named};

/// A system with its workload.
pub(super) type Entry = comparison::Entry<Contender, Workload>;

/// A system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contender {
    /// One that this program plays.
    Own(Own),
    /// One that the program of the peers plays.
    Peer(Peer),
}

/// A system that is linked into this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Own {
    /// Our provider as its documentation recommends it, under duroxide's own client.
    Reveille,
    /// The same, with clients that are woken by a result instead of polling for it.
    Woken,
    /// Our provider, whose acks wait for their commits.
    WaitedAcks,
    /// Our provider, with one poll per waiter after every wake-up.
    Broadcast,
    /// Our provider, polling for a minute after every wake-up.
    EveryWake,
    /// No database at all: the ceiling.
    Memory,
}

/// A published provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    DuroxidePg,
    DuroxidePgOpt,
}

pub(super) const REVEILLE: Contender = Contender::Own(Own::Reveille);
pub(super) const WOKEN: Contender = Contender::Own(Own::Woken);
pub(super) const WAITED_ACKS: Contender = Contender::Own(Own::WaitedAcks);
pub(super) const BROADCAST: Contender = Contender::Own(Own::Broadcast);
pub(super) const EVERY_WAKE: Contender = Contender::Own(Own::EveryWake);
pub(super) const CEILING: Contender = Contender::Own(Own::Memory);
pub(super) const DUROXIDE_PG: Contender = Contender::Peer(Peer::DuroxidePg);
pub(super) const DUROXIDE_PG_OPT: Contender = Contender::Peer(Peer::DuroxidePgOpt);

impl Named for Contender {
    fn name(self) -> &'static str {
        match self {
            Contender::Own(Own::Reveille) => "reveille",
            Contender::Own(Own::Woken) => "reveille, woken client",
            Contender::Own(Own::WaitedAcks) => "reveille, waited acks",
            Contender::Own(Own::Broadcast) => "reveille, broadcast",
            Contender::Own(Own::EveryWake) => "reveille, polling after every wake",
            Contender::Own(Own::Memory) => "in memory (the ceiling)",
            Contender::Peer(peer) => peer.name(),
        }
    }
}

impl Contender {
    /// Whether it uses the server.
    pub(super) fn has_database(self) -> bool {
        self != CEILING
    }
}

impl Own {
    /// Its name as an argument of this program.
    pub(super) fn argument(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

impl Peer {
    /// Its name in results and as an argument of its program.
    pub(super) fn name(self) -> &'static str {
        match self {
            Peer::DuroxidePg => "duroxide-pg",
            Peer::DuroxidePgOpt => "duroxide-pg-opt",
        }
    }
}
