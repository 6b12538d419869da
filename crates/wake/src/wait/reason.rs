//! Why the database is polled.

/// Why a poll is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A waiter came that does not wait, or whose group is not known to be empty.
    Arrived,
    /// A wake-up by a write of this process.
    Local,
    /// A write batch of this process makes work for it, and claims for it in the same statement.
    Attached,
    /// A notification of another process.
    Notified,
    /// A due time has come.
    Timer,
    /// Up to a second after a notification: its sender may have died before its next one.
    Trailing,
    /// The listener is connected again; notifications sent meanwhile are lost.
    Resync,
    /// The last poll skipped a locked row.
    Skipped,
    /// The last poll failed.
    Retry,
    /// The interval of aggressive polling.
    Interval,
    /// The fallback interval.
    Fallback,
    /// The last poll served every waiter it was made for; more may be due.
    More,
}

impl Reason {
    /// The value of the label `reason` in [`METRICS`](crate::METRICS).
    pub(crate) fn name(self) -> &'static str {
        match self {
            Reason::Arrived => "arrived",
            Reason::Local => "local",
            Reason::Attached => "attached",
            Reason::Notified => "notified",
            Reason::Timer => "timer",
            Reason::Trailing => "trailing",
            Reason::Resync => "resync",
            Reason::Skipped => "skipped",
            Reason::Retry => "retry",
            Reason::Interval => "interval",
            Reason::Fallback => "fallback",
            Reason::More => "more",
        }
    }
}
