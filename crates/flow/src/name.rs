//! Names: validation, and the topic keys of namespaces and step names.

use reveille_wake::topic_key;

use crate::error::{Error, Result};
use crate::template::NAME_MAX;

/// Checks a name or a short text.
pub(crate) fn check(what: &'static str, text: &str) -> Result<()> {
    let length = text.chars().count();
    if text.contains('\0') {
        return Err(Error::invalid(what, "must not contain NUL characters"));
    }
    if length > NAME_MAX {
        return Err(Error::invalid(what, format!("must have at most {NAME_MAX} characters, got {length}")));
    }
    Ok(())
}

/// The topic key of all steps of a namespace.
pub(crate) fn of_namespace(namespace: &str) -> String {
    topic_key('n', &[namespace])
}

/// The topic key of the steps with one name in a namespace.
pub(crate) fn of_step(namespace: &str, step: &str) -> String {
    topic_key('s', &[namespace, step])
}
