//! Who is measured.

use clap::ValueEnum;
use traffic::Workload;

use crate::comparison::{self, Named};

/// Who takes part with what.
pub(super) type Entry = comparison::Entry<Contender, Workload>;

/// A system that takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contender {
    /// One that this program plays.
    Own(Own),
    /// One that the program of the peers plays.
    Peer(Peer),
}

/// What is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Own {
    /// `reveille serve`, over HTTP.
    Http,
    /// Two of them on one database: what is sent to the one is received from the other.
    HttpTwo,
    /// The library within the process that uses it.
    Library,
}

/// What is not.
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
    /// How many servers of ours it takes.
    pub(super) fn servers(self) -> usize {
        match self {
            HTTP => 1,
            HTTP_TWO => 2,
            _ => 0,
        }
    }

    /// Whether a RabbitMQ is its server.
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
    /// Its name as an argument of its program.
    pub(super) fn argument(self) -> &'static str {
        match self {
            Peer::RabbitQuorum => "rabbit-quorum",
            Peer::RabbitClassic => "rabbit-classic",
            Peer::Pgmq => "pgmq",
        }
    }
}
