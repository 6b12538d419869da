//! A JSON value, exactly: every digit, every character; large parts can be collapsed.

use maud::{Markup, html};

use crate::Json;
use crate::json::quoted;

/// Objects and lists below this depth are closed at first.
const OPEN_DEPTH: usize = 2;
/// Elements of an object or list that are shown one by one; the others follow as text.
const SHOWN_ELEMENTS: usize = 500;
/// Texts up to this length are shown as they are; the rest of longer ones can be opened.
const SHOWN_CHARS: usize = 2_000;

/// A value.
pub fn value(json: &Json) -> Markup {
    html! { div.json data-json="" { (node(json, 0)) } }
}

fn node(json: &Json, depth: usize) -> Markup {
    match json {
        Json::Null => html! { span.null { "null" } },
        Json::Bool(value) => html! { span.bool { (value) } },
        Json::Number(text) => html! { span.num { (text) } },
        Json::Text(text) => string(text),
        Json::List(items) if items.is_empty() => html! { "[]" },
        Json::Object(members) if members.is_empty() => html! { "{}" },
        Json::List(items) => {
            let shown = items.iter().take(SHOWN_ELEMENTS).map(|item| (None, item));
            nested('[', ']', shown.collect(), items.len(), depth)
        }
        Json::Object(members) => {
            let shown = members.iter().take(SHOWN_ELEMENTS).map(|(name, value)| (Some(name.as_str()), value));
            nested('{', '}', shown.collect(), members.len(), depth)
        }
    }
}

fn nested(open: char, close: char, shown: Vec<(Option<&str>, &Json)>, count: usize, depth: usize) -> Markup {
    html! {
        details open[depth < OPEN_DEPTH] {
            summary { (open) span.count { (count) } (close) }
            ul {
                @for (name, value) in &shown {
                    li { @if let Some(name) = name { span.key { (visible(&quoted(name))) } ": " } (node(value, depth + 1)) }
                }
                @if count > shown.len() { li.count { "and " (count - shown.len()) " more" } }
            }
        }
    }
}

fn string(text: &str) -> Markup {
    match text.char_indices().nth(SHOWN_CHARS) {
        None => html! { span.str { (visible(&quoted(text))) } },
        Some((at, _)) => html! {
            details.long {
                summary { span.str { (visible(&quoted(&text[..at]))) "…" } span.count { (text.len()) " bytes" } }
                span.str { (visible(&quoted(text))) }
            }
        },
    }
}

/// Characters that change how their neighbours look are written as escapes.
pub fn visible(text: &str) -> String {
    let hidden = |c: char| {
        c.is_control() && c != '\n' && c != '\t'
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match hidden(letter) {
            true => shown.push_str(&format!("\\u{:04x}", u32::from(letter))),
            false => shown.push(letter),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Markup in a payload stays text, digits stay, and characters that reverse or hide text are written as escapes.
    #[test]
    fn a_value_is_shown_exactly_and_harmless() {
        let json = Json::parse("{\"<script>\":[12345678901234567890,\"a\u{202e}b</script>\"]}").expect("JSON");
        let page = value(&json).into_string();
        assert!(page.contains("12345678901234567890") && page.contains("a\\u202eb"), "{page}");
        assert!(!page.contains("<script>") && !page.contains('\u{202e}'), "{page}");
    }
}
