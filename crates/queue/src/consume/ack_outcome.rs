//! The outcome of an ack: the statement returns one word for the partition and one for each message.

use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::consume::ack::{AckError, AckStatus, Acked, Write};
use crate::storage::partition_ref::PartitionRef;
use crate::storage::statements::unknown_word;

/// What an ack did to the lease of its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartitionOutcome {
    /// The partition is free for the group.
    Released,
    /// It is still leased, or nothing changed.
    Kept,
    LeaseOver,
    NoPartition,
    NoGroup,
}

/// What an ack did to one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageOutcome {
    Acked,
    DeadLettered,
    /// An earlier message of the same ack was not completed.
    BehindFailure,
    NotDelivered,
    LeaseOver,
}

/// The outcome of the acks of one partition, group and lease.
#[derive(Debug)]
pub(crate) struct AckOutcome {
    pub(crate) partition: PartitionOutcome,
    /// The group has more to read, now or at a known time.
    pub(crate) has_more: bool,
    pub(crate) group: String,
    /// One per message; empty if there is no such partition or group.
    pub(crate) messages: Vec<MessageOutcome>,
}

impl AckOutcome {
    /// Reads a row of the statement `ack`. `None`: the cursor is locked by another transaction.
    pub(crate) fn from_row(row: &PgRow) -> sqlx::Result<Option<AckOutcome>> {
        let partition = match row.try_get("status")? {
            "released" => PartitionOutcome::Released,
            "kept" => PartitionOutcome::Kept,
            "lease_over" => PartitionOutcome::LeaseOver,
            "no_partition" => PartitionOutcome::NoPartition,
            "no_group" => PartitionOutcome::NoGroup,
            "busy" => return Ok(None),
            unknown => return Err(unknown_word("ack status", unknown)),
        };
        let message = |word: String| match word.as_str() {
            "acked" => Ok(MessageOutcome::Acked),
            "dead_lettered" => Ok(MessageOutcome::DeadLettered),
            "behind_failure" => Ok(MessageOutcome::BehindFailure),
            "not_delivered" => Ok(MessageOutcome::NotDelivered),
            "lease_over" => Ok(MessageOutcome::LeaseOver),
            unknown => Err(unknown_word("outcome of an acked message", unknown)),
        };
        let words: Vec<String> = row.try_get("messages")?;
        Ok(Some(AckOutcome {
            partition,
            has_more: row.try_get("has_more")?,
            group: row.try_get::<Option<String>, _>("consumer")?.unwrap_or_default(),
            messages: words.into_iter().map(message).collect::<sqlx::Result<_>>()?,
        }))
    }

    /// The outcome of an ack of a whole lease.
    pub(crate) fn released(group: &str, messages: usize, has_more: bool) -> AckOutcome {
        AckOutcome {
            partition: PartitionOutcome::Released,
            has_more,
            group: group.to_owned(),
            messages: vec![MessageOutcome::Acked; messages],
        }
    }

    pub(crate) fn is_released(&self) -> bool {
        self.partition == PartitionOutcome::Released
    }

    pub(crate) fn is_lease_over(&self) -> bool {
        self.partition == PartitionOutcome::LeaseOver
    }

    /// The answer to the message at `index` of the write.
    pub(crate) fn answer(&self, index: usize, partition: &PartitionRef) -> Acked {
        let message = self.messages.get(index).copied().unwrap_or(MessageOutcome::NotDelivered);
        let outcome = match (self.partition, message) {
            (PartitionOutcome::NoPartition, _) => Err(AckError::NoPartition),
            (PartitionOutcome::NoGroup, _) => Err(AckError::NoGroup),
            (_, MessageOutcome::Acked | MessageOutcome::DeadLettered) => Ok(()),
            (_, MessageOutcome::LeaseOver) => Err(AckError::LeaseOver),
            (_, MessageOutcome::BehindFailure) => Err(AckError::BehindFailure),
            (_, MessageOutcome::NotDelivered) => Err(AckError::NotDelivered),
        };
        Acked {
            outcome,
            dead_lettered: message == MessageOutcome::DeadLettered,
            lease_released: self.is_released() && outcome.is_ok(),
            queue: Some(partition.queue.clone()),
            partition: Some(partition.name.clone()),
        }
    }

    /// The hashes of the messages that were acked or became dead letters.
    pub(crate) fn consumed(&self, write: &Write) -> Vec<i64> {
        let is_consumed = |status: AckStatus, outcome: MessageOutcome| {
            outcome == MessageOutcome::DeadLettered
                || outcome == MessageOutcome::Acked && status == AckStatus::Completed
        };
        let each = write.messages.iter().zip(&self.messages);
        each.filter(|(message, outcome)| is_consumed(message.status, **outcome))
            .map(|(message, _)| message.hash)
            .collect()
    }
}
