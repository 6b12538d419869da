//! A view of a JSON value that counts every access, so that validation by the `jsonschema` crate stops when its budget
//! is spent.
//!
//! A schema and a value of a few kilobytes can keep a validator busy for hours, take gigabytes or exhaust the stack:
//! references that double per level, recursion through the value, long patterns on long strings. A thread cannot be
//! stopped from outside. So the validator reads the value through [`Counted`], which counts accesses and stack depth,
//! and unwinds when a limit is reached. The unwinding skips the panic hook, and [`within`] catches it; no lock is held
//! while a validator runs.

use std::any::Any;
use std::borrow::Cow;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use jsonschema::JsonType;
use jsonschema::json::{Array, Json, Node, NodeIdentity, Object};
use serde_json::{Map, Number, Value};

#[cfg(panic = "abort")]
compile_error!("the budget of a schema validation needs `panic = \"unwind\"`");

/// The stack that a validation may use, in bytes: half of the stack of a runtime thread.
const STACK_MAX: usize = 1 << 20;
/// Bytes of a string that are read for the price of one access, where no pattern scans them.
const STRING_BYTES: usize = 64;
/// The price of `uniqueItems` per value within its elements: up to fifteen elements are compared pairwise.
const UNIQUE: u64 = 16;

/// The budget of a validation and its prices.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    /// Accesses left.
    pub(super) accesses: u64,
    /// The price of a byte that patterns may scan.
    pub(super) pattern_byte: u64,
    /// The price of a byte of a property name.
    pub(super) name_byte: u64,
    /// The price of visiting an element or a member: subschemas that read nothing are evaluated for each, too.
    pub(super) visit: u64,
}

/// The budget was spent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spent;

thread_local! {
    static LEFT: Cell<Budget> = const { Cell::new(Budget { accesses: 0, pattern_byte: 0, name_byte: 0, visit: 0 }) };
    static STACK: Cell<usize> = const { Cell::new(0) };
}

/// Runs a validation within a budget. Validations do not nest.
pub(super) fn within<T>(budget: Budget, evaluate: impl FnOnce() -> T) -> Result<T, Spent> {
    LEFT.set(budget);
    STACK.set(here());
    catch_unwind(AssertUnwindSafe(evaluate)).map_err(|payload: Box<dyn Any + Send>| match payload.downcast::<Spent>() {
        Ok(spent) => *spent,
        Err(other) => resume_unwind(other),
    })
}

/// The current stack position. Only differences matter.
#[inline(never)]
fn here() -> usize {
    let local = 0_u8;
    std::ptr::from_ref(std::hint::black_box(&local)).addr()
}

/// Takes the price from the budget, or unwinds.
fn spend(price: impl FnOnce(&Budget) -> u64) {
    let mut budget = LEFT.get();
    let left = budget.accesses.checked_sub(price(&budget));
    if STACK.get().abs_diff(here()) > STACK_MAX {
        resume_unwind(Box::new(Spent));
    }
    let Some(left) = left else { resume_unwind(Box::new(Spent)) };
    budget.accesses = left;
    LEFT.set(budget);
}

fn spend_one() {
    spend(|_| 1);
}

/// A value whose accesses are counted.
#[derive(Clone, Copy)]
pub(super) struct ReportAnswer<'a>(pub(super) &'a Value);

/// The representation of JSON that validators are built for.
pub(super) struct CountedJson;

impl Json for CountedJson {
    type Node<'a> = ReportAnswer<'a>;
    type PreparedKey = String;
    type StringBuffer = Value;
    // The same as for a plain value: its objects are the same maps.
    const KEYS_PER_LOOKUP: usize = 2;

    fn prepare_key(key: &str) -> String {
        key.to_owned()
    }

    fn with_string_node<T>(buffer: &mut Value, string: &str, f: impl FnOnce(ReportAnswer<'_>) -> T) -> T {
        *buffer = Value::String(string.to_owned());
        f(ReportAnswer(buffer))
    }
}

impl<'a> Node<'a, CountedJson> for ReportAnswer<'a> {
    type Object = Members<'a>;
    type Array = Elements<'a>;
    type Number = &'a Number;

    fn as_object(&self) -> Option<Members<'a>> {
        spend_one();
        self.0.as_object().map(Members)
    }

    fn as_array(&self) -> Option<Elements<'a>> {
        spend_one();
        self.0.as_array().map(|array| Elements(array))
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        let text = self.0.as_str();
        spend(|budget| 1 + text.map_or(0, |text| text.len() as u64 * budget.pattern_byte + plain(text)));
        text.map(Cow::Borrowed)
    }

    fn as_number(&self) -> Option<&'a Number> {
        spend_one();
        self.0.as_number()
    }

    fn as_boolean(&self) -> Option<bool> {
        spend_one();
        self.0.as_bool()
    }

    fn is_null(&self) -> bool {
        spend_one();
        self.0.is_null()
    }

    fn json_type(&self) -> JsonType {
        spend_one();
        Node::<jsonschema::json::SerdeJson>::json_type(&self.0)
    }

    fn string_length(&self) -> Option<u64> {
        spend(|_| 1 + self.0.as_str().map_or(0, plain));
        Node::<jsonschema::json::SerdeJson>::string_length(&self.0)
    }

    fn equals_value(&self, expected: &Value) -> bool {
        spend_one();
        compared(self.0, expected);
        Node::<jsonschema::json::SerdeJson>::equals_value(&self.0, expected)
    }

    fn to_value(&self) -> Cow<'a, Value> {
        Cow::Borrowed(self.0)
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Node::<jsonschema::json::SerdeJson>::identity(&self.0)
    }
}

/// The price of scanning a string once.
fn plain(text: &str) -> u64 {
    (text.len() / STRING_BYTES) as u64
}

/// Takes the price of a comparison, which ends at the first difference.
fn compared(one: &Value, other: &Value) {
    match (one, other) {
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            spend(|_| one.len() as u64);
            one.iter().zip(other).for_each(|(one, other)| compared(one, other));
        }
        (Value::Object(one), Value::Object(other)) if one.len() == other.len() => {
            spend(|_| one.len() as u64);
            one.iter()
                .filter_map(|(key, one)| Some((one, other.get(key)?)))
                .for_each(|(one, other)| compared(one, other));
        }
        (Value::String(one), Value::String(other)) if one.len() == other.len() => spend(|_| plain(one)),
        _ => {}
    }
}

/// Takes the price of a value and everything in it.
fn whole(value: &Value, price: u64) {
    spend(|_| price + value.as_str().map_or(0, plain));
    match value {
        Value::Array(values) => values.iter().for_each(|value| whole(value, price)),
        Value::Object(members) => members.values().for_each(|value| whole(value, price)),
        _ => {}
    }
}

/// The members of an object.
#[derive(Clone, Copy)]
pub(super) struct Members<'a>(&'a Map<String, Value>);

impl<'a> Object<'a, CountedJson> for Members<'a> {
    type Node = ReportAnswer<'a>;
    type MemberName = &'a str;
    type MembersIter = MemberIter<'a>;

    fn len(&self) -> usize {
        spend_one();
        self.0.len()
    }

    fn get(&self, key: &String) -> Option<ReportAnswer<'a>> {
        let found = self.0.get(key);
        spend(|budget| if found.is_some() { budget.visit } else { 1 });
        found.map(ReportAnswer)
    }

    fn members(&self) -> MemberIter<'a> {
        spend_one();
        MemberIter(self.0.iter())
    }
}

pub(super) struct MemberIter<'a>(serde_json::map::Iter<'a>);

impl<'a> Iterator for MemberIter<'a> {
    type Item = (&'a str, ReportAnswer<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, value) = self.0.next()?;
        spend(|budget| budget.visit + name.len() as u64 * budget.name_byte + plain(name));
        Some((name, ReportAnswer(value)))
    }
}

/// The elements of an array.
#[derive(Clone, Copy)]
pub(super) struct Elements<'a>(&'a [Value]);

impl<'a> Array<'a, CountedJson> for Elements<'a> {
    type Node = ReportAnswer<'a>;
    type ElementsIter = ElementIter<'a>;

    fn len(&self) -> usize {
        spend_one();
        self.0.len()
    }

    fn elements(&self) -> ElementIter<'a> {
        spend_one();
        ElementIter(self.0.iter())
    }

    fn is_unique(&self) -> bool {
        self.0.iter().for_each(|element| whole(element, UNIQUE));
        Array::<jsonschema::json::SerdeJson>::is_unique(&self.0)
    }
}

pub(super) struct ElementIter<'a>(std::slice::Iter<'a, Value>);

impl<'a> Iterator for ElementIter<'a> {
    type Item = ReportAnswer<'a>;

    fn next(&mut self) -> Option<ReportAnswer<'a>> {
        let element = self.0.next()?;
        spend(|budget| budget.visit);
        Some(ReportAnswer(element))
    }
}
