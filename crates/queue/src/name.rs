//! Names of queues, partitions and consumer groups.
//!
//! Any text is a name: slashes, quotes, emoji. Two things are rejected: NUL, which PostgreSQL cannot store, and more
//! than [`LENGTH_MAX`] characters.

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// The partition of a message without a partition name.
pub const DEFAULT_PARTITION: &str = "Default";
/// The consumer group of a pop without a group name.
pub const QUEUE_MODE: &str = "__QUEUE_MODE__";
/// The longest name, in characters.
pub const LENGTH_MAX: usize = 1_000;

/// Rejects a name that cannot be stored or is empty.
pub(crate) fn check(what: &'static str, name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::invalid(what, "must not be empty"));
    }
    check_text(what, name)
}

/// Rejects text that cannot be stored.
pub(crate) fn check_text(what: &'static str, text: &str) -> Result<()> {
    if text.contains('\0') {
        return Err(Error::invalid(what, "must not contain a NUL character"));
    }
    let length = text.chars().count();
    if length > LENGTH_MAX {
        return Err(Error::invalid(what, format!("must have at most {LENGTH_MAX} characters, has {length}")));
    }
    Ok(())
}

/// The namespace and the task in the name of a queue: its first two dotted parts.
pub(crate) fn dotted(queue: &str) -> (&str, &str) {
    let Some((namespace, rest)) = queue.split_once('.') else { return ("", "") };
    (namespace, rest.split('.').next().unwrap_or_default())
}

/// Identifies a transaction id: 64 bits of its hash. Equal hashes are confirmed by comparing the ids.
pub(crate) fn hash(transaction_id: &str) -> i64 {
    let digest = Sha256::digest(transaction_id);
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    i64::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names with none, one and several dots.
    #[test]
    fn the_first_dotted_parts_are_namespace_and_task() {
        for (queue, expected) in [
            ("orders", ("", "")),
            ("shop.orders", ("shop", "orders")),
            ("shop.orders.eu", ("shop", "orders")),
            (".x", ("", "x")),
            ("x.", ("x", "")),
        ] {
            assert_eq!(dotted(queue), expected, "{queue}");
        }
    }

    /// Names at the limits are accepted; others are rejected with the reason.
    #[test]
    fn names_that_cannot_be_stored_are_rejected_with_the_reason() {
        check("queue", "a/b \"c\" 🐘").expect("anything else is a name");
        check("queue", &"🐘".repeat(LENGTH_MAX)).expect("as long as it may be");
        for (name, reason) in [("", "must not be empty"), ("a\0b", "NUL"), (&*"x".repeat(LENGTH_MAX + 1), "has 1001")] {
            let error = check("queue", name).expect_err(reason).to_string();
            assert!(error.starts_with("invalid parameter `queue`: ") && error.contains(reason), "{error}");
        }
    }
}
