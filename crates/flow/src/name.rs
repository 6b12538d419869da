//! Names: what can be one, and the keys of the wake engine's topics that they become, by which somebody is rung.

use reveille_wake::topic_key;

use crate::error::{Error, Result};
use crate::template::NAME_MAX;

/// Refuses what cannot be stored as a name or a short text.
pub(crate) fn check(what: &'static str, text: &str) -> Result<()> {
    let length = text.chars().count();
    if text.contains('\0') {
        return Err(Error::invalid(what, "it contains a NUL character, which PostgreSQL cannot store"));
    }
    if length > NAME_MAX {
        return Err(Error::invalid(what, format!("it has {length} characters; the limit is {NAME_MAX}")));
    }
    Ok(())
}

/// Whoever works on anything in a namespace.
pub(crate) fn of_namespace(namespace: &str) -> String {
    topic_key('n', &[namespace])
}

/// Whoever works on the steps of a name in a namespace.
pub(crate) fn of_step(namespace: &str, step: &str) -> String {
    topic_key('s', &[namespace, step])
}
