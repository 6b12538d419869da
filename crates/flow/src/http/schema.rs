//! Forms of values that many routes take, as the document describes them.

use serde::de::{Deserialize, Deserializer, Error};
use serde_json::Number;
use web::{form, text};

use crate::template::NAME_MAX;

form! {
    /// The name of a namespace, a template, a step, a worker; a short text.
    Label, text("Any text, but for the character NUL").max_length(Some(NAME_MAX)).pattern(Some(r"^[^\u0000]*$"))
}
form! {
    /// Who does something.
    Person, text("What the history calls them").min_length(Some(1)).max_length(Some(NAME_MAX)).pattern(Some(r"^[^\u0000]*$"))
}
form! {
    /// What a claim answers, and whoever has claimed presents.
    Token, text("As it was claimed")
}

/// A whole number from 0 on, or none. To JSON `1.0` is one, too.
pub(super) fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let Some(number) = Option::<Number>::deserialize(from)? else { return Ok(None) };
    let rounded = || number.as_f64().filter(|number| number.fract() == 0.0 && (0.0..1e15).contains(number));
    let number = number.as_u64().or_else(|| rounded().map(|number| number as u64)).ok_or(number);
    number.map(Some).map_err(|number| Error::custom(format_args!("{number} is not a whole number from 0 on")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What counts as a whole number, and what does not.
    #[test]
    fn whole_numbers_are_read_however_they_are_written() {
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
