//! A message queue on PostgreSQL whose parked consumers cost nothing and wake in milliseconds.
//!
//! [`Queues`] is the engine: push, pop, ack, leases, consumer groups, dead letters. Messages of a partition are read in the order in which they were committed, by any number of
//! consumer groups, each at its own pace; a duplicate of a message is recognised by its transaction id; a message that keeps failing goes to the dead letters.
//!
//! Where to read on: what is stored in `migrations/`; how it is appended, leased and ended in `functions/`, one file each with its reasons; how duplicates are recognised without an
//! index entry for each message in `seen.rs`. Everything that waits, rings and groups is the engine's: see the crate `wake`.

mod admin;
mod consume;
mod error;
mod groups;
pub mod http;
mod id;
mod message;
mod name;
mod produce;
mod queues;
mod storage;
mod transaction;

pub use admin::configure::{Change, Configured, Settings};
pub use admin::dead_letters::{DeadLetter, DeadLetterFilter, Replayed};
pub use admin::figures::{DEAD_LETTERS_COUNTED, Figures, GroupFigures, QueueFigures};
pub use admin::maintenance::Maintenance;
pub use admin::message_counters::{COUNTED_MAX, GroupCounts, GroupMessageCounts, MessageCounts, QueueCounts};
pub use admin::messages::{
    ListedMessage, MessageDetail, MessageFilter, MessageState, MessageStatus, Reader, ReadingMode, Retried,
};
pub use admin::metrics::METRICS;
pub use admin::resources::{
    Counts, CursorState, Depth, Listed, Overview, PAGE_MAX, Page, PartitionState, QueueDetail, QueueState, Space,
};
pub use admin::status::{DatabaseState, ProcessState, TableState};
pub use admin::traces::{NewTrace, Period, Trace, TraceName};
pub use consume::ack::{Ack, AckRefusal, AckStatus, Acked};
pub use consume::consumer::Consumer;
pub use consume::lease::Extended;
pub use consume::pop::{BATCH_MAX, Batch, LONGEST, PARTITIONS_MAX, Pop, Source, Subscription};
pub use error::{Error, Result};
pub use groups::group::{Group, Lagging, Seek};
pub use id::PartitionId;
pub use message::{Message, NewMessage, PushStatus, Pushed};
pub use name::{DEFAULT_PARTITION, LENGTH_MAX, QUEUE_MODE};
pub use queues::{Options, Queues};
pub use storage::encryption::KeyId;
pub use storage::retention::{Housekeeping, RetentionOptions};
pub use transaction::{Done, Operation};

// The program in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
