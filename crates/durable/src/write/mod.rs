//! Writes: each kind travels as one statement for many, see [`wake::BatchedWrite`].

mod abandon;
mod commit;
mod look_up;
mod send_work;
mod turn;

use std::collections::HashSet;

use uuid::Uuid;

pub(crate) use abandon::{Abandon, GivenUp};
pub(crate) use commit::{Commit, Done, Finished};
pub(crate) use look_up::{Found, LookUp, Wanted};
pub(crate) use send_work::SendWork;
pub(crate) use turn::{Acked, Ended, KeyChanges};

/// Which members present a token that one before them presents: the first is the one that counts.
fn repeated(fences: impl IntoIterator<Item = Uuid>) -> Vec<bool> {
    let mut seen = HashSet::new();
    fences.into_iter().map(|fence| !seen.insert(fence)).collect()
}

/// What became of a write that is fenced by a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fenced {
    Done,
    /// The token is somebody else's, or ended, or none.
    Gone,
    /// The lease has ended by itself.
    Expired,
}

impl Fenced {
    fn decode(text: &str) -> Option<Fenced> {
        match text {
            "ok" => Some(Fenced::Done),
            "expired" => Some(Fenced::Expired),
            "gone" => Some(Fenced::Gone),
            _ => None,
        }
    }
}
