//! The systems that are measured.

use clap::ValueEnum;
use traffic::Workload;

use crate::comparison::{self, Named};

/// A contender and its workload.
pub(super) type Entry = comparison::Entry<Contender, Workload>;

/// A system that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contender {
    /// One whose rounds this program plays.
    Own(Own),
    /// One whose rounds the program of the peers plays.
    Peer(Peer),
}

/// The contenders of Reveille.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Own {
    /// `reveille serve`, over HTTP.
    Http,
    /// Two servers on one database: messages are pushed to one and popped from the other.
    HttpTwo,
    /// The library, in the process that uses it.
    Library,
}

/// The peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    RabbitQuorum,
    RabbitClassic,
    Pgmq,
}

pub(super) const HTTP: Contender = Contender::Own(Own::Http);
pub(super) const HTTP_TWO: Contender = Contender::Own(Own::HttpTwo);
pub(super) const LIBRARY: Contender = Contender::Own(Own::Library);
pub(super) const RABBIT_QUORUM: Contender = Contender::Peer(Peer::RabbitQuorum);
pub(super) const RABBIT_CLASSIC: Contender = Contender::Peer(Peer::RabbitClassic);
pub(super) const PGMQ: Contender = Contender::Peer(Peer::Pgmq);

impl Named for Contender {
    fn name(self) -> &'static str {
        match self {
            Contender::Own(Own::Http) => "reveille, http",
            Contender::Own(Own::HttpTwo) => "reveille, http, two servers",
            Contender::Own(Own::Library) => "reveille, library",
            Contender::Peer(Peer::RabbitQuorum) => "rabbitmq, quorum",
            Contender::Peer(Peer::RabbitClassic) => "rabbitmq, classic",
            Contender::Peer(Peer::Pgmq) => "pgmq",
        }
    }
}

impl Contender {
    /// The number of `reveille serve` that it needs.
    pub(super) fn servers(self) -> usize {
        match self {
            HTTP => 1,
            HTTP_TWO => 2,
            _ => 0,
        }
    }

    /// Whether its server is RabbitMQ.
    pub(super) fn is_rabbit(self) -> bool {
        matches!(self, RABBIT_QUORUM | RABBIT_CLASSIC)
    }
}

impl Own {
    /// Its name as an argument of this program.
    pub(super) fn argument(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

impl Peer {
    /// Its name as an argument of the program of the peers.
    pub(super) fn argument(self) -> &'static str {
        match self {
            Peer::RabbitQuorum => "rabbit-quorum",
            Peer::RabbitClassic => "rabbit-classic",
            Peer::Pgmq => "pgmq",
        }
    }
}
