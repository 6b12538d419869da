//! What clients did, and what they were told.

use std::time::Duration;

/// Since the run began.
pub(crate) type Moment = Duration;

/// A request as its client saw it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) asked: Moment,
    /// `None`: it was never answered, so it may have happened.
    pub(crate) heard: Option<Moment>,
}

impl Span {
    /// Whether both may have happened in the same moment.
    pub(crate) fn meets(&self, other: &Span) -> bool {
        self.asked <= other.end() && other.asked <= self.end()
    }

    /// When it had surely happened, if it did.
    pub(crate) fn end(&self) -> Moment {
        self.heard.unwrap_or(Moment::MAX)
    }
}

/// Everything that was seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log {
    pub(crate) pushes: Vec<Push>,
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) words: Vec<Word>,
    pub(crate) extensions: Vec<Extension>,
    pub(crate) moves: Vec<Move>,
    /// When the database died.
    pub(crate) crashes: Vec<Span>,
    /// What the list of dead letters says at the end.
    pub(crate) dead: Vec<Dead>,
}

/// A message of a push.
#[derive(Debug, Clone)]
pub(crate) struct Push {
    pub(crate) span: Span,
    /// Which request; its messages are in the order of the request.
    pub(crate) request: u64,
    /// The queue, a slash, and the partition.
    pub(crate) lane: String,
    pub(crate) transaction: String,
    pub(crate) fate: PushFate,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PushFate {
    /// With the message's id.
    Queued(String),
    /// With the original's.
    Duplicate(String),
    /// Nobody said.
    Lost,
    /// The transaction was, so it must never be seen.
    RolledBack,
}

/// What a pop brought of one partition.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    pub(crate) span: Span,
    pub(crate) group: String,
    pub(crate) lane: String,
    pub(crate) lease: String,
    /// How long a lease of this queue lasts.
    pub(crate) lease_for: Duration,
    /// How often the first message was refused before.
    pub(crate) retries: u32,
    pub(crate) partition_id: String,
    pub(crate) messages: Vec<Delivered>,
}

#[derive(Debug, Clone)]
pub(crate) struct Delivered {
    pub(crate) id: String,
    pub(crate) transaction: String,
    /// As the server writes it: these texts are in the order of time.
    pub(crate) created: String,
}

/// What a consumer said of a message.
#[derive(Debug, Clone)]
pub(crate) struct Word {
    pub(crate) span: Span,
    /// Which request.
    pub(crate) call: u64,
    pub(crate) group: String,
    pub(crate) lane: String,
    pub(crate) lease: String,
    /// The message.
    pub(crate) id: String,
    pub(crate) said: Said,
    pub(crate) fate: WordFate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    Completed,
    Failed,
    Retry,
    DeadLetter,
}

impl Said {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Said::Completed => "completed",
            Said::Failed => "failed",
            Said::Retry => "retry",
            Said::DeadLetter => "dlq",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WordFate {
    /// It counts; `dead`: the message went to the dead letters.
    Counted { dead: bool },
    /// The lease is over.
    Over,
    /// An earlier message of the call failed.
    Behind,
    /// Refused for another reason.
    Refused,
    /// Nobody said.
    Lost,
}

impl Word {
    /// Whether the message was ended by it, as the server says.
    pub(crate) fn ended(&self) -> bool {
        match (self.fate, self.said) {
            (WordFate::Counted { dead }, Said::Failed) => dead,
            (WordFate::Counted { .. }, said) => said != Said::Retry,
            _ => false,
        }
    }

    /// Whether the message may have been ended by it.
    pub(crate) fn may_have_ended(&self) -> bool {
        self.ended() || self.fate == WordFate::Lost && self.said != Said::Retry
    }
}

/// A lease that somebody asked to last longer.
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
    pub(crate) to: Place,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// It was deleted, and begins again.
    Beginning,
    End,
    /// To the first message that is not older than this text.
    Time(String),
}

impl Move {
    pub(crate) fn concerns(&self, group: &str, lane: &str) -> bool {
        self.group == group && (self.scope == lane || queue_of(lane) == self.scope)
    }
}

/// A dead letter as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Dead {
    pub(crate) group: String,
    pub(crate) lane: String,
    pub(crate) id: String,
}

/// The queue of a lane.
pub(crate) fn queue_of(lane: &str) -> &str {
    lane.split_once('/').map_or(lane, |(queue, _)| queue)
}
