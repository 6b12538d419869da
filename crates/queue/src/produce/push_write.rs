//! A push of one partition: its messages, and their outcome.

use std::sync::Arc;

use uuid::Uuid;

use crate::storage::partition_ref::PartitionRef;

/// The messages of one request for one partition.
pub(crate) struct PushWrite {
    pub(crate) partition: Arc<PartitionRef>,
    pub(crate) messages: Vec<StoredMessage>,
    /// They were buffered during maintenance.
    pub(crate) drains: bool,
}

/// A message as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct StoredMessage {
    pub(crate) id: Uuid,
    pub(crate) transaction_id: String,
    pub(crate) hash: i64,
    pub(crate) payload: Vec<u8>,
    pub(crate) trace_id: Option<String>,
    pub(crate) producer: Option<String>,
}

impl StoredMessage {
    /// Its size in a segment, about.
    pub(crate) fn bytes(&self) -> usize {
        self.payload.len() + self.transaction_id.len() + 64
    }
}

/// The outcome of a push write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PushOutcome {
    /// Each message is stored, or a duplicate of the message with this id.
    Stored(Vec<Option<Uuid>>),
    /// The partition or its queue has changed: resolve it again.
    Gone,
    /// The queue has reached `maxSize`: the ids of messages that are stored nevertheless.
    Full(Vec<Option<Uuid>>),
    /// Pushes are under maintenance.
    InMaintenance,
}
