//! A message queue on PostgreSQL whose parked consumers cost nothing and wake in milliseconds.
//!
//! [`Queues`] is the engine: push, pop, ack, leases, consumer groups, dead letters. Messages of a partition are read in the order in which they were committed, by any number of
//! consumer groups, each at its own pace; a duplicate of a message is recognised by its transaction id; a message that keeps failing goes to the dead letters.
//!
//! Where to read on: what is stored in `migrations/`; how it is appended, leased and ended in `functions/`, one file each with its reasons; how duplicates are recognised without an
//! index entry for each message in `seen.rs`. Everything that waits, rings and groups is the engine's: see the crate `wake`.

mod ack;
mod balance;
mod claim;
mod configure;
mod dead_letter;
mod error;
mod fate;
mod figures;
mod group;
mod held;
pub mod http;
mod id;
mod lane;
mod lease;
mod maintenance;
mod message;
mod messages;
mod meter;
mod name;
mod place;
mod pop;
mod push;
mod queries;
mod queues;
mod removal;
mod resources;
mod retention;
mod round;
mod seal;
mod seen;
mod send;
mod status;
mod tally;
mod trace;
mod transaction;

pub use ack::{Ack, AckRefusal, AckStatus, Acked};
pub use configure::{Change, Configured, Settings};
pub use dead_letter::{DeadLetter, DeadLetterFilter, Replayed};
pub use error::{Error, Result};
pub use figures::{DEAD_LETTERS_COUNTED, Figures, GroupFigures, QueueFigures};
pub use group::{Group, Lagging, Seek};
pub use id::PartitionId;
pub use lease::Extended;
pub use maintenance::Maintenance;
pub use message::{Message, NewMessage, PushStatus, Pushed};
pub use messages::{
    ListedMessage, MessageDetail, MessageFilter, MessageState, MessageStatus, Reader, ReadingMode, Retried,
};
pub use meter::METRICS;
pub use name::{DEFAULT_PARTITION, LENGTH_MAX, QUEUE_MODE};
pub use pop::{BATCH_MAX, Batch, LONGEST, PARTITIONS_MAX, Pop, Source, Subscription};
pub use queues::{Options, Queues};
pub use resources::{
    Counts, CursorState, Depth, Listed, Overview, PAGE_MAX, Page, PartitionState, QueueDetail, QueueState, Space,
};
pub use retention::{Housekeeping, RetentionOptions};
pub use seal::KeyId;
pub use status::{DatabaseState, ProcessState, TableState};
pub use tally::{GroupTally, Moved, QueueTally, TALLIED_MAX, Tallies};
pub use trace::{NewTrace, Period, Trace, TraceName};
pub use transaction::{Done, Operation};
