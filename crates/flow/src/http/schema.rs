//! Schemas of values that many routes take, as the OpenAPI document describes them.

use reveille_web::{schema, text};
use serde::de::{Deserialize, Deserializer, Error};
use serde_json::Number;

use crate::template::NAME_MAX;

schema! {
    /// The name of a namespace, a template, a step or a worker, or another short text.
    Label, text("Any text without NUL characters").max_length(Some(NAME_MAX)).pattern(Some(r"^[^\u0000]*$"))
}
schema! {
    /// The name of an operator.
    Person, text("The name that the history shows").min_length(Some(1)).max_length(Some(NAME_MAX)).pattern(Some(r"^[^\u0000]*$"))
}
schema! {
    /// The token of a claim.
    Token, text("The token, as the claim returned it")
}

/// A non-negative integer, or none. In JSON `1.0` is an integer, too.
pub(super) fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let Some(number) = Option::<Number>::deserialize(from)? else { return Ok(None) };
    let rounded = || number.as_f64().filter(|number| number.fract() == 0.0 && (0.0..1e15).contains(number));
    let number = number.as_u64().or_else(|| rounded().map(|number| number as u64)).ok_or(number);
    number.map(Some).map_err(|number| Error::custom(format_args!("must be a non-negative integer, got {number}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Integers count in every JSON notation; fractions, negative numbers and texts do not.
    #[test]
    fn integers_are_read_in_every_notation() {
        let read = |text: &str| whole(&mut serde_json::Deserializer::from_str(text)).ok();
        for (text, expected) in
            [("7", Some(Some(7))), ("7.0", Some(Some(7))), ("1e3", Some(Some(1_000))), ("null", Some(None))]
        {
            assert_eq!(read(text), expected, "{text}");
        }
        for text in ["7.5", "-1", "-1.0", "1e300", "\"7\"", "true"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
