//! Why the database is asked for work.

/// Why a look is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A waiter came that does not wait, or to a group that knows nothing.
    Arrived,
    /// A write of this process rang.
    Rung,
    /// A notification of another process rang.
    Notified,
    /// A due time came.
    Timer,
    /// Up to a second after a notification: its sender may have died before its next.
    Trailing,
    /// The listener hears again; what was sent meanwhile is lost.
    Resync,
    /// The last look skipped a locked row.
    Skipped,
    /// The last look failed.
    Retry,
    /// The consumer polls.
    Polled,
    /// The fallback interval.
    Fallback,
    /// The last look served everyone it was for; there may be more.
    More,
}

impl Reason {
    /// The label of this reason in [`METRICS`](crate::METRICS).
    pub(crate) fn name(self) -> &'static str {
        match self {
            Reason::Arrived => "arrived",
            Reason::Rung => "rung",
            Reason::Notified => "notified",
            Reason::Timer => "timer",
            Reason::Trailing => "trailing",
            Reason::Resync => "resync",
            Reason::Skipped => "skipped",
            Reason::Retry => "retry",
            Reason::Polled => "polled",
            Reason::Fallback => "fallback",
            Reason::More => "more",
        }
    }
}
