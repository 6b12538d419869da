//! The items of the lists that workers send, each parsed on its own.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::complete::Failure;

/// Characters of an invalid token that are echoed: ten times the length of a token.
const TOKEN_SHOWN: usize = 1_000;
/// Characters of an error about an item.
const ERROR_MAX: usize = 500;

/// The token in an item, even if the rest of it is invalid.
pub(super) fn sent_token(step: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Item {
        token: Option<Value>,
    }
    let item: Item = serde_json::from_str(step.get()).ok()?;
    item.token?.as_str().map(|token| token.chars().take(TOKEN_SHOWN).collect())
}

/// Parses an item. Serde would accept a list as the fields in their order, so lists are rejected first.
pub(super) fn object<T: DeserializeOwned>(step: &RawValue) -> Result<T, String> {
    if step.get().starts_with('[') {
        return Err("invalid item: must be an object, got a list".to_owned());
    }
    serde_json::from_str(step.get()).map_err(|error| shortened(reveille_web::plain(&error.to_string())))
}

fn shortened(text: String) -> String {
    if text.len() <= ERROR_MAX { text } else { text.chars().take(ERROR_MAX).chain(['…']).collect() }
}

/// Parses the `error` of a failed attempt.
pub(super) fn failure<'de, D: Deserializer<'de>>(from: D) -> Result<Failure, D::Error> {
    let raw = Box::<RawValue>::deserialize(from)?;
    object(&raw).map_err(|reason| serde::de::Error::custom(format_args!("error: {reason}")))
}
