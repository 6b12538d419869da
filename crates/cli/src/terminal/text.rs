//! Text on a terminal: its width, its colours, and what must not reach the terminal.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// How a text looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// As everything else.
    #[default]
    Plain,
    /// A heading.
    Bold,
    /// Beside the point.
    Dim,
    /// Well.
    Good,
    /// In between.
    Busy,
    /// Needs attention.
    Bad,
}

impl Style {
    /// The text in this style, if there are colours.
    pub fn apply(self, text: &str, colour: bool) -> String {
        let code = match self {
            Style::Bold => 1,
            Style::Dim => 2,
            Style::Good => 32,
            Style::Busy => 33,
            Style::Bad => 31,
            Style::Plain => return text.to_owned(),
        };
        if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The text with everything escaped that a terminal would act on, or that would change the order of what is shown:
/// control characters, line ends, bidirectional controls.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_dangerous) {
        return Cow::Borrowed(text);
    }
    let escaped = |letter: char| match is_dangerous(letter) {
        true => letter.escape_default().to_string(),
        false => letter.to_string(),
    };
    Cow::Owned(text.chars().map(escaped).collect())
}

fn is_dangerous(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A number of things: `1 message`, `2 messages`.
pub fn count_of(number: u64, thing: &str) -> String {
    match (number, thing.strip_suffix('y')) {
        (1, _) => format!("1 {thing}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        _ => format!("{number} {thing}s"),
    }
}

/// The columns that a text takes.
pub fn width(text: &str) -> usize {
    text.width()
}

/// The text within so many columns: the end is replaced by `…` if it is too long.
pub fn truncated(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let mut used = 0;
    let room = columns.saturating_sub(1);
    let end = text.char_indices().find_map(|(at, letter)| {
        used += letter.width().unwrap_or_default();
        (used > room).then_some(at)
    });
    Cow::Owned(format!("{}…", &text[..end.unwrap_or(text.len())]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing that a terminal acts on remains; everything else stays as it is.
    #[test]
    fn control_characters_are_escaped() {
        let table = [
            ("plain é 🎉", "plain é 🎉"),
            ("\x1b[31mred", "\\u{1b}[31mred"),
            ("a\r\n\tb\0", "a\\r\\n\\tb\\u{0}"),
            ("\u{202e}evil\u{2069}", "\\u{202e}evil\\u{2069}"),
            ("\u{9b}31m", "\\u{9b}31m"),
        ];
        for (text, expected) in table {
            assert_eq!(printable(text), expected);
        }
    }

    /// Wide characters take two columns, and a truncated text never takes more than it may.
    #[test]
    fn a_truncated_text_fits() {
        for (text, columns, expected) in [
            ("abcdef", 6, "abcdef"),
            ("abcdef", 5, "abcd…"),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
            ("ab", 1, "…"),
        ] {
            let cut = truncated(text, columns);
            assert_eq!(cut, expected, "{text} in {columns}");
            assert!(width(&cut) <= columns, "{text} in {columns}");
        }
    }
}
