//! Tokens: which claim of which step.
//!
//! A token has the primary key of its step, so that a report finds its row directly, and the definition of the step, so
//! that a result can be validated without a query. The fence decides whether the claim still holds the step: the
//! statement that changes the step compares it.

use std::fmt;
use std::str::FromStr;

use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

/// A claim of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token {
    /// The task.
    pub task: Uuid,
    pub(crate) ordinal: i32,
    pub(crate) fence: i64,
    pub(crate) template: i32,
    pub(crate) slot: i32,
}

impl Token {
    /// The token of the step in a row.
    pub(crate) fn of(row: &PgRow) -> sqlx::Result<Token> {
        Ok(Token {
            task: row.try_get("task_id")?,
            ordinal: row.try_get("ordinal")?,
            fence: row.try_get("fence")?,
            template: row.try_get("template_id")?,
            slot: row.try_get("slot")?,
        })
    }
}

/// The text is not a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a token that a claim returned")]
pub struct NotAToken;

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Token { task, ordinal, fence, template, slot } = self;
        write!(f, "{}.{ordinal}.{fence}.{template}.{slot}", task.simple())
    }
}

impl FromStr for Token {
    type Err = NotAToken;

    fn from_str(text: &str) -> Result<Token, NotAToken> {
        let [task, ordinal, fence, template, slot] = text.split('.').collect::<Vec<_>>()[..] else {
            return Err(NotAToken);
        };
        let number = |text: &str| text.parse().ok().filter(|number: &i32| *number >= 0).ok_or(NotAToken);
        Ok(Token {
            task: Uuid::try_parse(task).map_err(|_| NotAToken)?,
            ordinal: number(ordinal)?,
            fence: fence.parse().ok().filter(|fence: &i64| *fence >= 0).ok_or(NotAToken)?,
            template: number(template)?,
            slot: number(slot)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A token survives a round trip, and other texts are rejected.
    #[test]
    fn a_token_is_what_was_written() {
        let token = Token { task: Uuid::now_v7(), ordinal: 1, fence: 2, template: 3, slot: 4 };
        let text = token.to_string();
        assert_eq!(text.parse(), Ok(token));
        for wrong in ["", "x", "x.1.2.3.4", &text[..text.len() - 2], &format!("{text}.5"), &text.replace(".1.", ".-1.")]
        {
            assert_eq!(wrong.parse::<Token>(), Err(NotAToken), "{wrong}");
        }
    }
}
