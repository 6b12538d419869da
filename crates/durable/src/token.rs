//! Lock tokens as duroxide passes them around.
//!
//! To the runtime a token is an opaque string. It contains the key of the locked row beside the fence, so that an ack in
//! any process finds the row by primary key and no index on tokens is needed.

use std::fmt;

use uuid::Uuid;

/// The lease of an instance: `<fence>:<instance>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TurnToken {
    pub(crate) fence: Uuid,
    /// Escaped.
    pub(crate) instance: String,
}

/// The lease of an activity: `<fence>:<id>:<instance>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ActivityToken {
    pub(crate) fence: Uuid,
    pub(crate) id: i64,
    /// Escaped.
    pub(crate) instance: String,
}

impl TurnToken {
    /// `None` if it is not a token of this provider.
    pub(crate) fn parse(text: &str) -> Option<TurnToken> {
        let (fence, instance) = text.split_once(':')?;
        Some(TurnToken { fence: Uuid::try_parse(fence).ok()?, instance: storable(instance)? })
    }
}

impl ActivityToken {
    /// `None` if it is not a token of this provider.
    pub(crate) fn parse(text: &str) -> Option<ActivityToken> {
        let (fence, rest) = text.split_once(':')?;
        let (id, instance) = rest.split_once(':')?;
        Some(ActivityToken { fence: Uuid::try_parse(fence).ok()?, id: id.parse().ok()?, instance: storable(instance)? })
    }
}

/// A token comes from outside: one with U+0000, which PostgreSQL cannot read, is invalid.
fn storable(instance: &str) -> Option<String> {
    (!instance.contains('\0')).then(|| instance.to_owned())
}

impl fmt::Display for TurnToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.fence.simple(), self.instance)
    }
}

impl fmt::Display for ActivityToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.fence.simple(), self.id, self.instance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The instance may be any text, with colons.
    #[test]
    fn tokens_of_any_instance_name_are_read_back() {
        for instance in ["", "a", "a:b::1", "\u{1}0", "🦀 / \"x\""] {
            let turn = TurnToken { fence: Uuid::from_u128(7), instance: instance.into() };
            assert_eq!(TurnToken::parse(&turn.to_string()), Some(turn));
            let work = ActivityToken { fence: Uuid::from_u128(8), id: -1, instance: instance.into() };
            assert_eq!(ActivityToken::parse(&work.to_string()), Some(work));
        }
    }

    /// Any text that is not a token is rejected before it reaches the database.
    #[test]
    fn invalid_tokens_are_rejected() {
        for text in ["", "invalid-token", "x:y", "00000000-0000-0000-0000-000000000000"] {
            assert_eq!(TurnToken::parse(text), None, "{text}");
            assert_eq!(ActivityToken::parse(text), None, "{text}");
        }
        assert_eq!(ActivityToken::parse("00000000000000000000000000000000:x:y"), None);
        assert_eq!(TurnToken::parse("00000000000000000000000000000000:a\0b"), None);
    }
}
