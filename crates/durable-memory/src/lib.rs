//! duroxide's provider contract in memory.
//!
//! A provider on a database is judged by two questions: is it right, and what of its time is its own? [`MemoryProvider`]
//! answers both by having nothing to hide behind. It is complete, and simple enough to be read against the contract: plain
//! collections under one lock, each call one change. So random calls on another provider can be compared with it, and a
//! benchmark on it shows what the runtime alone costs.
//!
//! What it promises beyond the contract, so that comparisons are exact:
//!
//! - Instances and work items are claimed in order of their due times, then of their arrival; the messages of a turn come in
//!   order of arrival. A lease is a due time: what is claimed again after its lease has ended stands at the end of that lease.
//!   What is given back without a delay stands where it stood.
//! - Messages for an instance that nothing has started wait for a start, apart from the due ones. Those for a mailbox, which only a
//!   running instance has, are dropped if a fetch finds nothing else, and no start is under way.
//! - Time is a [`Clock`] that a test can move.
//!
//! Every fetch is O(log n) in what is stored. Nothing survives the process.

mod admin;
mod clock;
mod history;
mod inbox;
mod instance;
mod kv;
#[cfg(feature = "validation")]
mod patient;
mod provider;
mod removal;
mod session;
mod state;
mod turn;
#[cfg(feature = "validation")]
pub mod validation;
mod work;

pub use clock::Clock;
pub use provider::{MemoryProvider, Polling};
