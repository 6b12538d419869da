//! A message queue on PostgreSQL: consumers that wait cost nothing, and wake within milliseconds.
//!
//! [`Queues`] is the entry point: push, pop, ack, leases, consumer groups, dead letters. Messages of a partition are
//! read in the order in which they were committed, by any number of consumer groups, each from its own position. A
//! duplicate is recognized by its transaction id. A message that keeps failing becomes a dead letter.
//!
//! `db/migrations` has the tables; `db/functions` appends, leases and acks, one function per file. Waiting, wake-ups
//! and write batches belong to the crate `reveille-wake`. The HTTP API is behind the feature `http`.
mod admin;
mod consume;
mod error;
mod groups;
#[cfg(feature = "http")]
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
pub use admin::message_counters::{COUNTED_MAX, GroupCounts, GroupMessageCounts, MessageCounts, QueueCounts, Rates};
pub use admin::message_pages::{BrowseFilter, BrowsedMessage, Content, MessageInfo, MessageKey};
pub use admin::messages::{
    ListedMessage, MessageDetail, MessageFilter, MessageState, MessageStatus, Reader, ReadingMode, Retried,
};
pub use admin::metrics::METRICS;
pub use admin::queue_pages::{Backlog, COUNTED_PARTITIONS_MAX, Paged, PartitionFilter, QueueFilter, QueueSummary};
pub use admin::replay::{MATCHING_COUNTED, Matching, ReplayStep, STEP_MAX};
pub use admin::resources::{
    Counts, CursorState, Depth, Listed, Overview, PAGE_MAX, Page, PartitionState, QueueDetail, QueueState, Space,
};
pub use admin::status::{DatabaseState, ProcessState, TableState};
pub use admin::traces::{NewTrace, Period, Trace, TraceName};
pub use consume::ack::{Ack, AckError, AckStatus, Acked};
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
