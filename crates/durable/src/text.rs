//! User text on its way into the database and back.
//!
//! A Rust string may hold U+0000 and PostgreSQL's `text` may not, so one such output or key would fail its whole turn for ever. Events and
//! messages are JSON, which escapes it; what is stored as it is (names, outputs, statuses, keys and values) is escaped here. Text
//! without U+0000 and U+0001 is stored unchanged.

use std::borrow::Cow;

/// As it is stored.
pub(crate) fn stored(text: &str) -> Cow<'_, str> {
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

/// As it was given.
pub(crate) fn restored(text: String) -> String {
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

        /// Whatever goes in comes out, and PostgreSQL can hold what is in between.
        #[test]
        fn every_text_survives(text in "[\u{0}\u{1}01ab\u{e9}]{0,20}") {
            let kept = stored(&text).into_owned();
            let storable = !kept.contains('\u{0}');
            prop_assert!(storable);
            prop_assert_eq!(restored(kept), text);
        }
    }

    /// Common text is not touched, so that it can be read and searched in the database.
    #[test]
    fn common_text_is_stored_as_it_is() {
        assert!(matches!(stored("order/42 \"é\" \u{2}"), Cow::Borrowed(_)));
    }
}
