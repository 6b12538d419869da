//! How deep a JSON text is nested, and about what its parsed form takes in memory, found without parsing it.
//!
//! A parser that recurses ends its process on a text that is nested deeply enough; what is kept as text here is
//! parsed by consumers. And a parsed value takes many times its text: `[0,0,0,…]` 64 times, `[{"a":0},…]` 100 times. Both are
//! checked by this scan before anything is parsed. It looks at brackets, commas and colons outside of strings; whether the text is
//! JSON at all is the parser's matter.

/// Levels of arrays and objects that a JSON or YAML text may have: a body, its own included, and a value that a program passes. What is answered from it is wrapped in up to five levels
/// more, and many parsers stop at 128.
pub const MAX_DEPTH: usize = 100;

/// Bytes of a value in an array or object: 32, up to three times while the array grows, and a heap block for a short string.
const VALUE_BYTES: usize = 128;
/// Bytes of an object beyond its values: the node of a tree that has room for eleven entries. Measured with a copy of it, as a
/// submission makes one: 1 050 for an object with one number.
const OBJECT_BYTES: usize = 640;

/// What a scan found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Levels of arrays and objects.
    pub(crate) depth: usize,
    /// About the bytes of the parsed form beyond those of its strings.
    pub(crate) parsed_bytes: usize,
}

/// Scans a text. What lies deeper than `parsed_levels` is kept as text and counts nothing.
///
/// `None` if it is deeper than [`MAX_DEPTH`].
pub(crate) fn shape(text: &[u8], parsed_levels: usize) -> Option<Shape> {
    let (mut level, mut deepest, mut parsed_bytes) = (0_usize, 0_usize, VALUE_BYTES);
    let mut rest = text.iter();
    while let Some(byte) = rest.next() {
        match byte {
            b'"' => skip_string(&mut rest),
            b'{' | b'[' => {
                level += 1;
                deepest = deepest.max(level);
                if level > MAX_DEPTH {
                    return None;
                }
                if level <= parsed_levels {
                    parsed_bytes += if *byte == b'{' { OBJECT_BYTES + VALUE_BYTES } else { VALUE_BYTES };
                }
            }
            b'}' | b']' => level = level.saturating_sub(1),
            b',' | b':' if level <= parsed_levels => parsed_bytes += VALUE_BYTES,
            _ => {}
        }
    }
    Some(Shape { depth: deepest, parsed_bytes })
}

/// Whether a JSON text has at most [`MAX_DEPTH`] levels of arrays and objects.
pub fn is_within_depth(text: &str) -> bool {
    shape(text.as_bytes(), 0).is_some()
}

/// About the bytes of the parsed form of a text in which each line may be a value: YAML.
pub(crate) fn lines_bytes(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte == b'\n').count() * (VALUE_BYTES + OBJECT_BYTES)
}

/// Moves behind the end of a string, or to the end of the text if it has none.
fn skip_string(rest: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = rest.next() {
        match byte {
            b'"' => return,
            b'\\' => drop(rest.next()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Depth counts brackets of both kinds, and nothing in a string.
    #[test]
    fn depth_is_that_of_brackets_outside_of_strings() {
        for (text, depth) in [
            ("", 0),
            ("7", 0),
            (r#""[[[""#, 0),
            (r#""\"[[[""#, 0),
            (r#""\\"[]"#, 1),
            ("[]", 1),
            (r#"{"a":[{"]":[]},{}]}"#, 4),
            ("[[],[],[]]", 2),
            ("]]][", 1),
            (r#"["never closed [[["#, 1),
            ("\"\\", 0),
        ] {
            assert_eq!(shape(text.as_bytes(), usize::MAX).map(|shape| shape.depth), Some(depth), "{text}");
        }
    }

    /// The limit itself is allowed, one level more is not, in arrays and objects alike, and a million levels end no process.
    #[test]
    fn a_text_deeper_than_the_limit_is_refused() {
        for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
            let nested = |levels: usize| format!("{}0{}", open.repeat(levels), close.repeat(levels));
            assert!(shape(nested(MAX_DEPTH).as_bytes(), 0).is_some());
            assert!(serde_json::from_str::<serde_json::Value>(&nested(MAX_DEPTH + 5)).is_ok(), "with what wraps it");
            assert!(shape(nested(MAX_DEPTH + 1).as_bytes(), 0).is_none());
            assert!(shape(nested(1_000_000).as_bytes(), 0).is_none());
        }
    }

    /// The estimate grows with what is parsed, and not with what is kept as text.
    #[test]
    fn the_estimate_counts_what_is_parsed() {
        let bytes = |text: &str, levels| shape(text.as_bytes(), levels).expect("flat").parsed_bytes;
        assert_eq!(bytes("[0,0,0]", usize::MAX), 4 * VALUE_BYTES);
        assert_eq!(bytes(r#"[{"a":0}]"#, usize::MAX), 4 * VALUE_BYTES + OBJECT_BYTES);
        assert_eq!(bytes("[[0,0,0,0],[0,0,0]]", 1), 3 * VALUE_BYTES);
    }
}
