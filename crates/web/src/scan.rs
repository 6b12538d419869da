//! Estimates the nesting depth of a JSON text and the memory of its parsed value, without parsing it.
//!
//! A recursive parser crashes its process on a text that is nested deeply enough, and payloads that are kept as text
//! here are parsed by consumers. A parsed value takes many times the size of its text: `[0,0,0,…]` 64 times,
//! `[{"a":0},…]` 100 times. This scan checks both before anything is parsed. It only inspects brackets, commas and
//! colons outside of strings; whether the text is valid JSON is left to the parser.

/// Levels of arrays and objects that a JSON or YAML text may have, including the body itself. A response wraps a value
/// in up to five more levels, and many parsers stop at 128.
pub const MAX_DEPTH: usize = 100;

/// Bytes of a value in an array or object: 32, up to three times while the array grows, and a heap block for a short
/// string.
const VALUE_BYTES: usize = 128;
/// Bytes of an object in addition to its values: a tree node with room for eleven entries. Measured for an object with
/// one number and its copy, as a submission makes one: 1 050 bytes.
const OBJECT_BYTES: usize = 640;

/// The result of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Levels of arrays and objects.
    pub(crate) depth: usize,
    /// Estimated bytes of the parsed value without its strings.
    pub(crate) parsed_bytes: usize,
}

/// Scans a text. Values below `parsed_levels` stay text and are not counted.
///
/// `None` if it is nested deeper than [`MAX_DEPTH`].
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

/// Estimated bytes of a parsed YAML text, in which each line may be a value.
#[cfg(feature = "http")]
pub(crate) fn lines_bytes(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte == b'\n').count() * (VALUE_BYTES + OBJECT_BYTES)
}

/// Skips to the end of a string, or to the end of the text if the string is not closed.
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

    /// Depth counts brackets of both kinds, but not those in strings.
    #[test]
    fn depth_counts_brackets_outside_of_strings() {
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

    /// [`MAX_DEPTH`] levels are allowed, one more is not, in arrays and objects alike; a million levels crash nothing.
    #[test]
    fn a_text_deeper_than_the_limit_is_rejected() {
        for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
            let nested = |levels: usize| format!("{}0{}", open.repeat(levels), close.repeat(levels));
            assert!(shape(nested(MAX_DEPTH).as_bytes(), 0).is_some());
            assert!(serde_json::from_str::<serde_json::Value>(&nested(MAX_DEPTH + 5)).is_ok(), "with what wraps it");
            assert!(shape(nested(MAX_DEPTH + 1).as_bytes(), 0).is_none());
            assert!(shape(nested(1_000_000).as_bytes(), 0).is_none());
        }
    }

    /// The estimate counts parsed values, not those that are kept as text.
    #[test]
    fn the_estimate_counts_parsed_values() {
        let bytes = |text: &str, levels| shape(text.as_bytes(), levels).expect("flat").parsed_bytes;
        assert_eq!(bytes("[0,0,0]", usize::MAX), 4 * VALUE_BYTES);
        assert_eq!(bytes(r#"[{"a":0}]"#, usize::MAX), 4 * VALUE_BYTES + OBJECT_BYTES);
        assert_eq!(bytes("[[0,0,0,0],[0,0,0]]", 1), 3 * VALUE_BYTES);
    }
}
