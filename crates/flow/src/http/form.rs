//! Forms of values that many routes take, as the document describes them.

use web::{form, text};

use crate::template::NAME_MAX;

form! {
    /// The name of a namespace, a template, a step, a worker; a short text.
    Label, text("Any text, but for the character NUL").max_length(Some(NAME_MAX)).pattern(Some(r"^[^\u0000]*$"))
}
form! {
    /// What a claim answers, and whoever has claimed presents.
    Token, text("As it was claimed")
}
