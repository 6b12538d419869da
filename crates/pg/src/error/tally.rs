//! How often the database failed, by kind, since the process began.
//!
//! Counted where an answer of the driver becomes an [`Error`], so that no caller can forget it. A failure that is
//! passed on as it is counts once.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Error;
use crate::shortage;

/// The kinds, in the order of [`kind_index`].
const KINDS: [&str; 8] =
    ["unreachable", "rejected", "no_primary", "exhausted", "interrupted", "transient", "refused", "other"];

static COUNTS: [AtomicU64; KINDS.len()] = [const { AtomicU64::new(0) }; KINDS.len()];

fn kind_index(error: &Error) -> usize {
    match error {
        Error::Unreachable { .. } => 0,
        Error::Rejected { .. } | Error::OldServer { .. } => 1,
        Error::NoPrimary { .. } => 2,
        Error::Exhausted => 3,
        Error::Interrupted(_) => 4,
        Error::Transient { .. } => 5,
        Error::Refused { .. } => 6,
        _ => 7,
    }
}

/// Counts a failure, and passes it on. A closed pool is not a failure.
pub(super) fn counted(error: Error) -> Error {
    if !matches!(error, Error::Closed) {
        COUNTS[kind_index(&error)].fetch_add(1, Ordering::Relaxed);
        shortage::report(&error);
    }
    error
}

/// How often a call to the database failed in this process, by kind: `unreachable`, `rejected`, `no_primary`,
/// `exhausted` (no free connection in time), `interrupted` (the connection broke), `transient` (rolled back, may be
/// tried again), `refused` (permanent), `other`.
pub fn error_counts() -> impl Iterator<Item = (&'static str, u64)> {
    KINDS.into_iter().zip(COUNTS.iter().map(|count| count.load(Ordering::Relaxed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A failure is counted under its kind and passed on unchanged; a closed pool is not counted.
    /// Other tests of this process may count as well, so the test checks for an increase, not for a number.
    #[test]
    fn failures_are_counted_by_kind() {
        let count = |kind| error_counts().find(|(name, _)| *name == kind).map_or(0, |(_, count)| count);
        let before = count("exhausted");
        assert!(matches!(Error::from(sqlx::Error::PoolTimedOut), Error::Exhausted));
        assert!(count("exhausted") > before);
        assert!(matches!(counted(Error::Closed), Error::Closed));
    }
}
