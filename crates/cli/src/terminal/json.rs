//! JSON as text: other white space, the same values.
//!
//! A parser would read numbers as doubles and lose digits. This only moves white space outside of strings.

/// Spaces per level.
const INDENT: usize = 2;

/// The JSON on one line.
pub fn compact(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    tokens(json, |token| out.push_str(token));
    out
}

/// The JSON with a line for each value, as people read it.
pub fn pretty(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut level = 0_usize;
    let mut is_empty = false;
    tokens(json, |token| {
        let closes = matches!(token, "}" | "]");
        if closes {
            level = level.saturating_sub(1);
        }
        // Between the brackets of an empty object there is nothing.
        if closes && !is_empty || !closes && is_empty {
            new_line(&mut out, level);
        }
        is_empty = matches!(token, "{" | "[");
        if is_empty {
            level += 1;
        }
        out.push_str(token);
        match token {
            "," => new_line(&mut out, level),
            ":" => out.push(' '),
            _ => {}
        }
    });
    out
}

fn new_line(out: &mut String, level: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', level * INDENT));
}

/// Calls `each` with brackets, commas, colons, strings and other values, in order.
fn tokens<'a>(json: &'a str, mut each: impl FnMut(&'a str)) {
    let bytes = json.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let length = match bytes[at] {
            b' ' | b'\t' | b'\r' | b'\n' => {
                at += 1;
                continue;
            }
            b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
            b'"' => string_length(&bytes[at..]),
            _ => bytes[at..].iter().position(|byte| b" \t\r\n{}[],:\"".contains(byte)).unwrap_or(bytes.len() - at),
        };
        each(&json[at..at + length]);
        at += length;
    }
}

/// The length of the string at the beginning, with its quotes.
fn string_length(bytes: &[u8]) -> usize {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// White space goes, values stay byte by byte: digits, escapes, spaces in strings.
    #[test]
    fn only_white_space_changes() {
        let json = "{ \"a b\" : [ 12345678901234567890.10 , \"x \\\" , y\\\\\" ,\n\t{ } , [ ] ], \"é\": null }";
        let one_line = r#"{"a b":[12345678901234567890.10,"x \" , y\\",{},[]],"é":null}"#;
        assert_eq!(compact(json), one_line);
        let lines = "{\n  \"a b\": [\n    12345678901234567890.10,\n    \"x \\\" , y\\\\\",\n    {},\n    []\n  ],\n  \"é\": null\n}";
        assert_eq!(pretty(json), lines);
        assert_eq!(compact(lines), one_line);
        assert_eq!(
            (pretty("7"), pretty("[]"), compact("\"unclosed \\")),
            ("7".into(), "[]".into(), "\"unclosed \\".into())
        );
    }

    proptest! {
        /// Any text is accepted, and nothing but white space is lost.
        #[test]
        fn any_text_is_accepted(text in "[ \\n{}\\[\\],:\"\\\\a1é]{0,40}") {
            let without = |text: &str| text.replace([' ', '\n'], "");
            prop_assert_eq!(without(&compact(&text)), without(&text));
            prop_assert_eq!(without(&pretty(&text)), without(&text));
        }
    }
}
