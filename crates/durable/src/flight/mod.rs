//! Writes: each kind travels as one statement for many, see [`wake::Flight`].

mod abandon_turn;
mod abandon_work;
mod ack_turn;
mod ack_work;
mod look_up;
mod send;
mod send_work;

pub(crate) use abandon_turn::{AbandonTurn, GivenUpTurn};
pub(crate) use abandon_work::{AbandonWork, GivenUpWork};
pub(crate) use ack_turn::{AckTurn, Acked, Ended, KeyChanges};
pub(crate) use ack_work::{AckWork, Done};
pub(crate) use look_up::{Found, LookUp, Wanted};
pub(crate) use send::Send;
pub(crate) use send_work::SendWork;

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
    fn of(text: &str) -> Fenced {
        match text {
            "ok" => Fenced::Done,
            "expired" => Fenced::Expired,
            _ => Fenced::Gone,
        }
    }
}
