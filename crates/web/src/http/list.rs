//! Lists in a body, bounded while they are parsed.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// A list of at most `MAX` elements. Parsing stops at the first element above, so that a large body of tiny elements
/// takes no more memory than `MAX` of them.
#[derive(Debug)]
pub struct List<T, const MAX: usize>(pub Vec<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for List<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_seq(Elements::<T, MAX>(PhantomData))
    }
}

struct Elements<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Elements<T, MAX> {
    type Value = List<T, MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MAX} elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = from.next_element()? {
            if elements.len() == MAX {
                return Err(A::Error::custom(format_args!("too many elements: at most {MAX} are allowed")));
            }
            elements.push(element);
        }
        Ok(List(elements))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `MAX` elements are accepted. One more is rejected with an error that names the limit; so is a value that is no
    /// list.
    #[test]
    fn a_list_above_its_limit_is_rejected() {
        let read = |text: &str| serde_json::from_str::<List<u8, 3>>(text).map(|list| list.0);
        assert_eq!(read("[1,2,3]").expect("three"), [1, 2, 3]);
        let error = |text: &str| read(text).expect_err("rejected").to_string();
        assert!(error("[1,2,3,4]").contains("at most 3 are allowed"), "{}", error("[1,2,3,4]"));
        assert!(error("{}").contains("a list of at most 3 elements"), "{}", error("{}"));
    }
}
