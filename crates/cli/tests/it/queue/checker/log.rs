//! The requests of clients and their responses.

use std::time::Duration;

/// The time since the run began.
pub(crate) type Timestamp = Duration;

/// A request as its client saw it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) asked: Timestamp,
    /// `None` if there was no response, so it may have taken effect.
    pub(crate) heard: Option<Timestamp>,
}

impl Span {
    /// Whether both may have taken effect at the same time.
    pub(crate) fn meets(&self, other: &Span) -> bool {
        self.asked <= other.end() && other.asked <= self.end()
    }

    /// When it had certainly taken effect, if it did.
    pub(crate) fn end(&self) -> Timestamp {
        self.heard.unwrap_or(Timestamp::MAX)
    }
}

/// Everything that clients saw.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log {
    pub(crate) pushes: Vec<Push>,
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) reports: Vec<Report>,
    pub(crate) extensions: Vec<Extension>,
    pub(crate) moves: Vec<Move>,
    /// When the database crashed.
    pub(crate) crashes: Vec<Span>,
    /// The list of dead letters at the end.
    pub(crate) dead: Vec<Dead>,
}

/// A message of a push.
#[derive(Debug, Clone)]
pub(crate) struct Push {
    pub(crate) span: Span,
    /// Which request; its messages are in the order of the request.
    pub(crate) request: u64,
    /// The queue, a slash, and the partition.
    pub(crate) partition: String,
    pub(crate) transaction: String,
    pub(crate) outcome: PushOutcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PushOutcome {
    /// With the message's id.
    Queued(String),
    /// With the id of the original.
    Duplicate(String),
    /// There was no response.
    Lost,
    /// With its transaction, so it must never be delivered.
    RolledBack,
}

/// The messages of one partition in a pop.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    pub(crate) span: Span,
    pub(crate) group: String,
    pub(crate) partition: String,
    pub(crate) lease: String,
    /// How long a lease of this queue lasts.
    pub(crate) lease_for: Duration,
    /// How often the first message had failed before.
    pub(crate) retries: u32,
    pub(crate) partition_id: String,
    pub(crate) messages: Vec<Delivered>,
}

#[derive(Debug, Clone)]
pub(crate) struct Delivered {
    pub(crate) id: String,
    pub(crate) transaction: String,
    /// As the server writes it: these texts sort by time.
    pub(crate) created: String,
}

/// The ack of a message.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    pub(crate) span: Span,
    /// Which request.
    pub(crate) call: u64,
    pub(crate) group: String,
    pub(crate) partition: String,
    pub(crate) lease: String,
    /// The message.
    pub(crate) id: String,
    pub(crate) status: AckStatus,
    pub(crate) outcome: ReportOutcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AckStatus {
    Completed,
    Failed,
    Retry,
    DeadLetter,
}

impl AckStatus {
    pub(crate) fn text(self) -> &'static str {
        match self {
            AckStatus::Completed => "completed",
            AckStatus::Failed => "failed",
            AckStatus::Retry => "retry",
            AckStatus::DeadLetter => "dlq",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportOutcome {
    /// It was applied; `dead` if the message became a dead letter.
    Counted { dead: bool },
    /// The lease has expired.
    Over,
    /// An earlier message of the call failed.
    Behind,
    /// Rejected for another reason.
    Refused,
    /// There was no response.
    Lost,
}

impl Report {
    /// Whether it ended the message, according to the response.
    pub(crate) fn ended(&self) -> bool {
        match (self.outcome, self.status) {
            (ReportOutcome::Counted { dead }, AckStatus::Failed) => dead,
            (ReportOutcome::Counted { .. }, status) => status != AckStatus::Retry,
            _ => false,
        }
    }

    /// Whether it may have ended the message.
    pub(crate) fn may_have_ended(&self) -> bool {
        self.ended() || self.outcome == ReportOutcome::Lost && self.status != AckStatus::Retry
    }
}

/// A request to extend a lease.
#[derive(Debug, Clone)]
pub(crate) struct Extension {
    pub(crate) span: Span,
    pub(crate) lease: String,
    pub(crate) by: Duration,
    pub(crate) success: bool,
}

/// A consumer group that was moved.
#[derive(Debug, Clone)]
pub(crate) struct Move {
    pub(crate) span: Span,
    pub(crate) group: String,
    /// The queue, or the queue, a slash, and one partition.
    pub(crate) scope: String,
    pub(crate) to: Position,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Position {
    /// The group was deleted and starts again.
    Beginning,
    End,
    /// To the first message that is not older than this text.
    Time(String),
}

impl Move {
    pub(crate) fn concerns(&self, group: &str, partition: &str) -> bool {
        self.group == group && (self.scope == partition || queue_of(partition) == self.scope)
    }
}

/// A listed dead letter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Dead {
    pub(crate) group: String,
    pub(crate) partition: String,
    pub(crate) id: String,
}

/// The queue of a partition.
pub(crate) fn queue_of(partition: &str) -> &str {
    partition.split_once('/').map_or(partition, |(queue, _)| queue)
}
