//! Elements of the lists that workers send, each read by itself.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::complete::Failure;

/// Characters of what was presented as a token that are told again: ten times what a token has.
const TOKEN_SHOWN: usize = 1_000;
/// Characters of what is wrong with an element.
const ERROR_MAX: usize = 500;

/// The token that is in an element, whatever else is wrong with it.
pub(super) fn presented(step: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Presented {
        token: Option<Value>,
    }
    let presented: Presented = serde_json::from_str(step.get()).ok()?;
    presented.token?.as_str().map(|token| token.chars().take(TOKEN_SHOWN).collect())
}

/// What an element says. A parser would take a list for its fields in their order.
pub(super) fn object<T: DeserializeOwned>(step: &RawValue) -> Result<T, String> {
    if step.get().starts_with('[') {
        return Err("it is a list, expected an object".to_owned());
    }
    serde_json::from_str(step.get()).map_err(|error| shortened(web::plain(&error.to_string())))
}

fn shortened(text: String) -> String {
    if text.len() <= ERROR_MAX { text } else { text.chars().take(ERROR_MAX).chain(['…']).collect() }
}

/// Why a step failed.
pub(super) fn failure<'de, D: Deserializer<'de>>(from: D) -> Result<Failure, D::Error> {
    let raw = Box::<RawValue>::deserialize(from)?;
    object(&raw).map_err(|reason| serde::de::Error::custom(format_args!("error: {reason}")))
}
