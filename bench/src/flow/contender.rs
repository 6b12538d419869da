//! The systems that are measured.

use crate::comparison::{self, Named};

use super::piece::Piece;

/// A contender and its workload.
pub(super) type Entry = comparison::Entry<Contender, Piece>;

/// A system that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contender {
    /// The crate, in the process that submits tasks and runs steps.
    Library,
    /// `reveille serve`: submitters and workers are in another process and use HTTP.
    Http,
    /// graphile_worker: jobs in Rust.
    Graphile,
    /// DBOS: workflows in Python.
    Dbos,
    /// awa with its defaults: jobs in Rust.
    Awa,
    /// awa with its fastest settings.
    TunedAwa,
}

pub(super) use Contender::{Awa, Dbos, Graphile, Http, Library, TunedAwa};

impl Named for Contender {
    fn name(self) -> &'static str {
        match self {
            Library => "reveille, in process",
            Http => "reveille, http",
            Graphile => "graphile_worker",
            Dbos => "dbos (python)",
            Awa => "awa",
            TunedAwa => "awa, tuned",
        }
    }
}
