//! Claims: turns and activities, their leases, and the sessions of workers.

mod activity;
mod blocked;
mod fetch;
mod lease;
mod leased;
mod load;
mod session;
mod turn;
mod unanswered;

pub(crate) use activity::{ActivityClaim, ActivityKey};
pub(crate) use blocked::Blocked;
pub(crate) use lease::{LeasedItem, Leases};
pub(crate) use session::Sessions;
pub(crate) use turn::{TurnClaim, TurnKey, packed_version};
