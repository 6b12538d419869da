//! Values of any form inside a template: schemas, the initialization of a handler, hints of a batch.
//!
//! They are kept as [`Value`], whose numbers are 64-bit integers and doubles. Any other number would be stored changed,
//! 100000000000000000001 as 1e20. So the positions of all doubles are kept, and [`Free::inexact`] compares them with the
//! text.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::{Location, Spanned};

use crate::json::same_number;

/// A value of any form.
#[derive(Debug, Clone, Default)]
pub(super) struct Free {
    pub(super) value: Value,
    /// The doubles in it, and where they are. Of a value that is itself a double, `Spanned` has the position.
    doubles: Vec<(f64, Location)>,
}

impl Free {
    /// The numbers of the text that a double does not hold, with what is wrong.
    pub(super) fn inexact(free: &Spanned<Free>, text: &str) -> Vec<(Location, String)> {
        let Free { value, doubles } = &free.value;
        let own = value.as_f64().filter(|_| value.is_f64()).map(|double| (double, free.defined));
        own.iter()
            .chain(doubles)
            .filter_map(|(double, at)| Some((*at, changed(*double, written(text, *at)?)?)))
            .collect()
    }

    fn of(value: impl Into<Value>) -> Free {
        Free { value: value.into(), doubles: Vec::new() }
    }

    /// Takes over the doubles of an element, and returns its value.
    fn adopt(&mut self, element: Spanned<Free>) -> Value {
        let Spanned { value: Free { value, doubles }, defined, .. } = element;
        match value.as_f64() {
            Some(double) if value.is_f64() => self.doubles.push((double, defined)),
            _ => self.doubles.extend(doubles),
        }
        value
    }
}

/// The part of the text at a position.
fn written(text: &str, at: Location) -> Option<&str> {
    let start = usize::try_from(at.span().byte_offset()?).ok()?;
    let length = usize::try_from(at.span().byte_len()?).ok()?;
    text.get(start..start.checked_add(length)?)
}

/// What is wrong if the double is not the number that is written. Notations that only YAML has are not compared.
fn changed(double: f64, written: &str) -> Option<String> {
    let stored = Value::from(double).to_string();
    let is_json = serde_json::from_str::<f64>(written).is_ok();
    (is_json && !same_number(written, &stored)).then(|| {
        format!("invalid number {written:.40}: it would be stored as {stored}; write a 64-bit number, or a string")
    })
}

impl<'de> Deserialize<'de> for Free {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Free, D::Error> {
        from.deserialize_any(FreeVisitor)
    }
}

struct FreeVisitor;

impl<'de> Visitor<'de> for FreeVisitor {
    type Value = Free;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Free, E> {
        Ok(Free::of(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Free, E> {
        Ok(Free::of(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Free, E> {
        Ok(Free::of(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Free, E> {
        Ok(Free::of(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Free, E> {
        Ok(Free::of(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Free, E> {
        Ok(Free::of(value))
    }

    fn visit_unit<E>(self) -> Result<Free, E> {
        Ok(Free::default())
    }

    fn visit_none<E>(self) -> Result<Free, E> {
        Ok(Free::default())
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Free, D::Error> {
        Free::deserialize(from)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Free, A::Error> {
        let mut free = Free::default();
        let mut elements = Vec::new();
        while let Some(element) = from.next_element()? {
            elements.push(free.adopt(element));
        }
        free.value = Value::Array(elements);
        Ok(free)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Free, A::Error> {
        let mut free = Free::default();
        let mut members = Map::new();
        while let Some((name, element)) = from.next_entry()? {
            members.insert(name, free.adopt(element));
        }
        free.value = Value::Object(members);
        Ok(free)
    }
}
