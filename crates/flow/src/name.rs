//! Keys of the wake engine's topics: who is rung for what.

use sha2::{Digest, Sha256};

/// Whoever works on anything in a namespace.
pub(crate) fn of_namespace(namespace: &str) -> String {
    topic('n', &[namespace])
}

/// Whoever works on the steps of a name in a namespace.
pub(crate) fn of_step(namespace: &str, step: &str) -> String {
    topic('s', &[namespace, step])
}

/// A short key, the same in every process: names may be longer than a notification, and hold anything.
fn topic(kind: char, parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let short: String = hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{kind}{short}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where one name ends and the next begins must count.
    #[test]
    fn topics_of_different_names_differ() {
        assert_ne!(of_step("ab", "c"), of_step("a", "bc"));
        assert_ne!(of_namespace("ab"), of_step("ab", ""));
    }
}
