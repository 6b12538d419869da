//! Lock tokens as duroxide passes them around.
//!
//! A token is an opaque string to the runtime. Here it carries what it locks beside the fence itself, so that an ack finds its row by primary
//! key, in any process, and no index on tokens has to be kept.

use std::fmt;

use uuid::Uuid;

/// The lease of an instance: `<fence>:<instance>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TurnToken {
    pub(crate) fence: Uuid,
    /// As it is stored.
    pub(crate) instance: String,
}

/// The lease of an activity: `<fence>:<id>:<instance>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkToken {
    pub(crate) fence: Uuid,
    pub(crate) id: i64,
    /// As it is stored.
    pub(crate) instance: String,
}

impl TurnToken {
    /// `None` if it is no token of ours.
    pub(crate) fn parse(text: &str) -> Option<TurnToken> {
        let (fence, instance) = text.split_once(':')?;
        Some(TurnToken { fence: Uuid::try_parse(fence).ok()?, instance: storable(instance)? })
    }
}

impl WorkToken {
    /// `None` if it is no token of ours.
    pub(crate) fn parse(text: &str) -> Option<WorkToken> {
        let (fence, rest) = text.split_once(':')?;
        let (id, instance) = rest.split_once(':')?;
        Some(WorkToken { fence: Uuid::try_parse(fence).ok()?, id: id.parse().ok()?, instance: storable(instance)? })
    }
}

/// A token comes from outside: one that PostgreSQL could not even read is none.
fn storable(instance: &str) -> Option<String> {
    (!instance.contains('\0')).then(|| instance.to_owned())
}

impl fmt::Display for TurnToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.fence.simple(), self.instance)
    }
}

impl fmt::Display for WorkToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.fence.simple(), self.id, self.instance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An instance may be called anything, colons included.
    #[test]
    fn tokens_survive_odd_instances() {
        for instance in ["", "a", "a:b::1", "\u{1}0", "🦀 / \"x\""] {
            let turn = TurnToken { fence: Uuid::from_u128(7), instance: instance.into() };
            assert_eq!(TurnToken::parse(&turn.to_string()), Some(turn));
            let work = WorkToken { fence: Uuid::from_u128(8), id: -1, instance: instance.into() };
            assert_eq!(WorkToken::parse(&work.to_string()), Some(work));
        }
    }

    /// What is no token must be told from one that has ended: neither may reach the database as something else.
    #[test]
    fn what_is_no_token_is_refused() {
        for text in ["", "invalid-token", "x:y", "00000000-0000-0000-0000-000000000000"] {
            assert_eq!(TurnToken::parse(text), None, "{text}");
            assert_eq!(WorkToken::parse(text), None, "{text}");
        }
        assert_eq!(WorkToken::parse("00000000000000000000000000000000:x:y"), None);
        assert_eq!(TurnToken::parse("00000000000000000000000000000000:a\0b"), None);
    }
}
