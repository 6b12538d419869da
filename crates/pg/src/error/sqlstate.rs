//! What a SQLSTATE means for the sender of the statement.
//!
//! A statement fails for one of two reasons: it is wrong, or the server cannot run it now. Only the second kind
//! may be tried again, and then it matters whether the statement has certainly not taken effect. Only this module
//! decides; all other code calls [`crate::Error::is_transient`] and [`crate::Error::is_ambiguous`].

/// What the sender may conclude.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Rolled back by the server, and the next attempt may well succeed.
    Transient,
    /// The session ended while the statement or its commit was under way: it may or may not have happened.
    Interrupted,
    /// Trying again cannot help.
    Permanent,
}

/// One row: a code, what it means, and why.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Five characters; one that ends in `000` also stands for the unlisted codes of its class.
    pub code: &'static str,
    /// What the sender may conclude.
    pub kind: Kind,
    /// Why, in words for an operator.
    pub reason: &'static str,
}

const fn row(code: &'static str, kind: Kind, reason: &'static str) -> Row {
    Row { code, kind, reason }
}

use Kind::{Interrupted, Permanent, Transient};

/// Every code with a decision of its own. What is not here, nor in a class that is, is [`Kind::Permanent`].
#[rustfmt::skip]
pub const TABLE: &[Row] = &[
    // Class 08: said by poolers and proxies about their own connection to the server.
    row("08000", Interrupted, "a pooler or proxy lost its connection to the server"),
    row("08001", Interrupted, "a pooler or proxy could not reach the server; it does not say for which statement"),
    row("08003", Interrupted, "the connection between pooler and server is gone"),
    row("08004", Interrupted, "the server turned the pooler away, as it does while it starts, stops or is full"),
    row("08006", Interrupted, "the connection between pooler and server broke"),
    row("08007", Interrupted, "the connection broke during commit; the outcome is unknown by definition"),
    row("08P01", Interrupted, "PgBouncer's code for a server that went away and for waiting too long for one"),
    // Class 25: state of the transaction.
    row("25006", Transient, "the server is read-only: a primary became a standby; the next connection finds the new primary"),
    row("25P03", Transient, "the transaction sat idle beyond idle_in_transaction_session_timeout and was rolled back"),
    row("25P04", Interrupted, "the transaction ran into transaction_timeout and its session was ended"),
    // Class 26, and 42P05 below: prepared statements that are not where they were prepared.
    row("26000", Permanent, "a prepared statement is gone: a transaction-mode pooler in between needs the option `pooler`"),
    // Class 40: the server chose this transaction to give way.
    row("40000", Transient, "the transaction was rolled back in favour of another"),
    row("40001", Transient, "serialization failure, or a conflict with recovery on a standby: the same transaction may pass next time"),
    row("40002", Permanent, "a deferred constraint does not hold; the same data will fail again"),
    row("40003", Interrupted, "statement completion unknown, by definition"),
    row("40P01", Transient, "deadlock: the server ended this side of it, the other side went on"),
    row("42P05", Permanent, "a prepared statement is already there: a transaction-mode pooler in between needs the option `pooler`"),
    // Class 53: the server is short of something that others will give back.
    row("53000", Transient, "the server is short of a resource"),
    row("53100", Transient, "the disk is full; writes work again once space is freed"),
    row("53200", Transient, "the server is out of memory for now"),
    row("53300", Transient, "too many connections; others will end theirs"),
    row("53400", Transient, "a configured limit is reached for now"),
    // Class 55: in use by another session.
    row("55006", Transient, "the object is in use by another session"),
    row("55P03", Transient, "lock_timeout or NOWAIT: another transaction held the lock for too long"),
    // Class 57: an operator, or the server on an operator's behalf, intervened.
    row("57000", Interrupted, "an operator intervened"),
    row("57014", Transient, "cancelled by statement_timeout or an administrator, and rolled back; a loaded server may manage next \
                             time, and the time limit of the retry loop ends it for a statement that is simply too slow"),
    row("57P01", Interrupted, "the server or the session is being shut down by an administrator"),
    row("57P02", Interrupted, "another server process crashed, so all sessions were ended"),
    row("57P03", Interrupted, "the server is starting, stopping or recovering"),
    row("57P04", Permanent, "the database has been dropped"),
    row("57P05", Transient, "the session was idle beyond idle_session_timeout and was ended before this statement reached it"),
    // Class 58: the machine under the server.
    row("58000", Transient, "an error of the operating system under the server; it, or a failover, may clear it"),
    row("58030", Transient, "an input/output error under the server; a failover to another machine may clear it"),
    row("58P01", Permanent, "a file of the server is missing; this needs an administrator"),
    row("58P02", Permanent, "a file of the server is there twice; this needs an administrator"),
    // Class 72: only before PostgreSQL 17.
    row("72000", Transient, "the snapshot became too old; a new transaction takes a new one"),
];

/// The row of a code: its own, else its class's. `None` means permanent.
pub fn lookup(code: &str) -> Option<&'static Row> {
    let find = |wanted: &str| TABLE.iter().find(|row| row.code == wanted);
    find(code).or_else(|| find(&format!("{}000", code.get(..2)?)))
}

/// The kind of a code.
pub fn classify(code: &str) -> Kind {
    lookup(code).map_or(Permanent, |row| row.kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table is read by people and by `lookup`: codes are well formed, sorted (so none is there twice) and
    /// reasoned.
    #[test]
    fn rows_are_well_formed_sorted_and_reasoned() {
        for row in TABLE {
            assert_eq!(row.code.len(), 5, "{row:?}");
            assert!(row.code.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase()), "{row:?}");
            assert!(row.reason.len() > 10 && !row.reason.ends_with('.'), "{row:?}");
        }
        for pair in TABLE.windows(2) {
            assert!(pair[0].code < pair[1].code, "{} before {}", pair[0].code, pair[1].code);
        }
    }

    /// A server newer than this table may know more codes. They follow their class where the class has a row.
    #[test]
    fn unlisted_codes_follow_their_class() {
        assert_eq!(classify("08999"), Interrupted);
        assert_eq!(classify("40XYZ"), Transient);
        assert_eq!(classify("53999"), Transient);
        assert_eq!(classify("57P99"), Interrupted);
        for permanent in ["23505", "42P01", "28P01", "3D000", "22001", "XX000", "P0001", "55000", "25P02", "", "é"] {
            assert_eq!(classify(permanent), Permanent, "{permanent}");
        }
    }

    /// Errors of restarts, failovers, deadlocks and full pools must be worth another attempt, and those that leave the
    /// result of a commit unknown must be ambiguous. The list repeats the promise, not the table.
    #[test]
    fn operational_trouble_is_never_permanent() {
        for code in ["57P01", "57P02", "57P03", "08006", "08P01", "40003", "08007"] {
            assert_eq!(classify(code), Interrupted, "{code}");
        }
        for code in ["40001", "40P01", "55P03", "53300", "53100", "53200", "25006", "25P03", "57014"] {
            assert_eq!(classify(code), Transient, "{code}");
        }
    }
}
