//! Escapes user text for the database.
//!
//! A Rust string may contain U+0000, PostgreSQL's `text` may not: one such output or key would fail its turn forever.
//! Events and messages are JSON, which escapes it. Names, outputs, statuses, keys and values are escaped here. Text
//! without U+0000 and U+0001 is stored unchanged.

use std::borrow::Cow;

/// The text as it is stored.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| byte <= 1) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\u{0}' => out.push_str("\u{1}0"),
            '\u{1}' => out.push_str("\u{1}1"),
            other => out.push(other),
        }
    }
    Cow::Owned(out)
}

/// The text as it was given.
pub(crate) fn unescape(text: String) -> String {
    if !text.contains('\u{1}') {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\u{1}' => out.push(if chars.next() == Some('0') { '\u{0}' } else { '\u{1}' }),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Every text is unescaped to itself, and PostgreSQL can store the escaped form.
        #[test]
        fn escaping_is_reversible(text in "[\u{0}\u{1}01ab\u{e9}]{0,20}") {
            let escaped = escape(&text).into_owned();
            let storable = !escaped.contains('\u{0}');
            prop_assert!(storable);
            prop_assert_eq!(unescape(escaped), text);
        }
    }

    /// Ordinary text is stored unchanged, so that it can be read and searched in the database.
    #[test]
    fn ordinary_text_is_not_escaped() {
        assert!(matches!(escape("order/42 \"é\" \u{2}"), Cow::Borrowed(_)));
    }
}
