//! A state in one word, with a colour and a shape, because colour alone is not enough.

use maud::{Markup, html};

/// What a state means to the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Done.
    Good,
    /// In progress.
    Busy,
    /// Waiting, and that is fine.
    Quiet,
    /// Worth a look.
    Warn,
    /// Failed.
    Bad,
}

impl Tone {
    /// The tone as a class of the stylesheet.
    pub fn class(self) -> &'static str {
        match self {
            Tone::Good => "good",
            Tone::Busy => "busy",
            Tone::Quiet => "quiet",
            Tone::Warn => "warn",
            Tone::Bad => "bad",
        }
    }
}

/// A state.
pub fn badge(tone: Tone, state: &str) -> Markup {
    html! { span.badge.(tone.class()) { (state) } }
}
