//! Keys of the wake engine's topics: who is rung for what.

use wake::topic_key;

/// Whoever works on anything in a namespace.
pub(crate) fn of_namespace(namespace: &str) -> String {
    topic_key('n', &[namespace])
}

/// Whoever works on the steps of a name in a namespace.
pub(crate) fn of_step(namespace: &str, step: &str) -> String {
    topic_key('s', &[namespace, step])
}
