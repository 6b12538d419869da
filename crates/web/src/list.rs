//! Lists in a body, bounded while they are read.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// A list of at most `MAX` elements. One more is refused before it is parsed, so that a large body of tiny elements takes no more
/// memory than `MAX` of them.
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

    /// The limit itself is read; one more is refused, with the limit, and so is what is no list.
    #[test]
    fn a_list_beyond_its_limit_is_refused() {
        let read = |text: &str| serde_json::from_str::<List<u8, 3>>(text).map(|list| list.0);
        assert_eq!(read("[1,2,3]").expect("three"), [1, 2, 3]);
        let said = |text: &str| read(text).expect_err("refused").to_string();
        assert!(said("[1,2,3,4]").contains("at most 3 are allowed"), "{}", said("[1,2,3,4]"));
        assert!(said("{}").contains("a list of at most 3 elements"), "{}", said("{}"));
    }
}
