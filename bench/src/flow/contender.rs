//! Who is measured.

use crate::comparison::{self, Named};

use super::piece::Piece;

/// Who takes part with what.
pub(super) type Entry = comparison::Entry<Contender, Piece>;

/// A system that takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contender {
    /// The crate within the process that submits and works.
    Library,
    /// `reveille serve`: submitters and workers are another process, over HTTP.
    Http,
    /// Jobs for Rust.
    Graphile,
    /// Workflows for Python.
    Dbos,
}

pub(super) use Contender::{Dbos, Graphile, Http, Library};

impl Named for Contender {
    fn name(self) -> &'static str {
        match self {
            Library => "reveille, in process",
            Http => "reveille, http",
            Graphile => "graphile_worker",
            Dbos => "dbos (python)",
        }
    }
}
