//! Messages, on their way in and out.

use serde_json::value::RawValue;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::id::PartitionId;
use crate::name::{DEFAULT_PARTITION, check, check_text};

/// A message to push.
#[derive(Debug, Clone)]
pub struct NewMessage {
    /// The queue; made if there is none of that name.
    pub queue: String,
    /// The partition within which order is kept; `None` is [`DEFAULT_PARTITION`](crate::DEFAULT_PARTITION).
    pub partition: Option<String>,
    /// Any JSON; it comes back byte by byte.
    pub payload: Box<RawValue>,
    /// The producer's own id of it: a second message with the same one in the same partition is a duplicate. `None`: one is made up.
    pub transaction_id: Option<String>,
    /// An id of what it belongs to.
    pub trace_id: Option<String>,
    /// Who pushed it, as the server knows it.
    pub producer: Option<String>,
}

impl NewMessage {
    /// A message for the default partition of a queue.
    pub fn new(queue: impl Into<String>, payload: Box<RawValue>) -> NewMessage {
        let queue = queue.into();
        NewMessage { queue, partition: None, payload, transaction_id: None, trace_id: None, producer: None }
    }

    /// The partition, whether it is named or not.
    pub(crate) fn batch(&self) -> &str {
        self.partition.as_deref().unwrap_or(DEFAULT_PARTITION)
    }

    /// Refuses what cannot be stored.
    pub(crate) fn check(&self) -> Result<()> {
        check("queue", &self.queue)?;
        check("partition", self.batch())?;
        check_text("transactionId", self.transaction_id.as_deref().unwrap_or_default())?;
        check_text("traceId", self.trace_id.as_deref().unwrap_or_default())
    }
}

/// What became of a pushed message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PushStatus {
    /// It is stored.
    Queued,
    /// A message of this transaction id is in the partition already; the id is the original's.
    Duplicate,
    /// It is kept until maintenance ends, and pushed then.
    Buffered,
    /// It was not stored, for this reason.
    Failed(String),
}

/// The answer to a pushed message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    /// What became of it.
    pub status: PushStatus,
    /// Its id, or, of a duplicate, the original's.
    pub message_id: Uuid,
    /// Its transaction id.
    pub transaction_id: String,
    /// Where it is.
    pub partition_id: PartitionId,
}

/// A message that was popped.
#[derive(Debug, Clone)]
pub struct Message<P = Box<RawValue>> {
    /// Its id.
    pub id: Uuid,
    /// The producer's id of it.
    pub transaction_id: String,
    /// What it belongs to.
    pub trace_id: Option<String>,
    /// As it was pushed.
    pub payload: P,
    /// Who pushed it.
    pub producer: Option<String>,
    /// When it was stored, by the database's clock.
    pub created_at: OffsetDateTime,
    /// Its queue.
    pub queue: String,
    /// Its partition.
    pub partition: String,
    /// The id of that.
    pub partition_id: PartitionId,
    /// Its place in the partition.
    pub offset: i64,
    /// How often the first message of what it was delivered with has failed before for this consumer group, or was not acked before its lease expired.
    pub retries: u32,
}

/// A payload as it is stored.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) encrypted: bool,
    pub(crate) bytes: Vec<u8>,
}

impl Message<Stored> {
    /// With its payload as it was pushed: what it was decrypted to, or what is stored.
    pub(crate) fn opened(self, decrypted: Option<Box<RawValue>>) -> Result<Message> {
        let Message { id, transaction_id, trace_id, payload, producer, created_at, .. } = self;
        let Message { queue, partition, partition_id, offset, retries, .. } = self;
        let stored = || String::from_utf8(payload.bytes).ok().and_then(|text| RawValue::from_string(text).ok());
        let Some(payload) = decrypted.or_else(stored) else {
            return Err(Error::invalid("payload", format!("the stored payload of message {id} is not JSON")));
        };
        Ok(Message {
            id,
            transaction_id,
            trace_id,
            payload,
            producer,
            created_at,
            queue,
            partition,
            partition_id,
            offset,
            retries,
        })
    }
}
