//! JSON Schemas of clients, evaluated within bounds.
//!
//! A template says what contexts and results look like. Both the schema and the value come from outside, so the time, the memory and the stack that they take together are bounded:
//! [`Shape`] bounds what a schema expands to when it is registered, [`meter`] what an evaluation may cost. Whether a value is valid is asked first, which needs no memory; the reasons are
//! built afterwards, within a budget of their own. What is cheap is evaluated where it is asked; the rest by [`apart`].

mod meter;
mod shape;

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use tokio::sync::Semaphore;

use meter::{Budget, CountedJson, ReportAnswer, Spent};
pub(crate) use shape::Shape;

/// Accesses of an evaluation at most: about a second.
pub(crate) const ACCESSES_MAX: u64 = 10_000_000;
/// Accesses of an evaluation on a thread of the runtime: about a millisecond.
const ACCESSES_AT_ONCE: u64 = 10_000;
/// Accesses for the reasons why a value is not valid. Each may become an error of a few hundred bytes.
const ACCESSES_FOR_REASONS: u64 = 20_000;
/// Reasons that are told, and characters of each.
const REASONS_MAX: usize = 5;
const REASON_CHARACTERS_MAX: usize = 200;
/// Large evaluations, and templates that are read, at the same time. Two, so that one that takes a second does not delay all others.
const LARGE_AT_ONCE: usize = 2;
/// How long one waits for its turn.
const TURN_WITHIN: Duration = Duration::from_secs(10);
/// The bytes of a compiled regular expression: what most need, and what one may have at most.
const PATTERN_SIZE: usize = 64 << 10;
const PATTERN_SIZE_MAX: usize = 1 << 20;
/// The price of a byte that expressions of these sizes look at. A byte costs a step per state at most, and there are some thousands of states in the smaller.
const PATTERN_BYTE: u64 = 16;
const PATTERN_BYTE_MAX: u64 = 256;
/// Subschemas that are evaluated for the price of one access.
const SUBSCHEMAS: u64 = 100;

static LARGE: Semaphore = Semaphore::const_new(LARGE_AT_ONCE);

/// Does work that may take a second on a thread of its own, a few at a time. `None`: others were at it for too long.
pub(crate) async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let turn = tokio::time::timeout(TURN_WITHIN, LARGE.acquire()).await.ok()?.ok()?;
    let done = tokio::task::spawn_blocking(move || {
        // The caller may have gone away: the turn is over when the work is.
        let _turn = turn;
        work()
    });
    match done.await {
        Ok(done) => Some(done),
        Err(error) => error.try_into_panic().map_or(None, |panic| std::panic::resume_unwind(panic)),
    }
}

/// A JSON Schema that can be used.
pub(crate) struct Schema {
    validator: Validator<CountedJson>,
    shape: Shape,
    pattern_byte: u64,
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema").field("shape", &self.shape).finish_non_exhaustive()
    }
}

/// Why a value does not count.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// It is not what the schema describes, or cannot be compared with it; why.
    Invalid(String),
    /// Others are compared at the moment; try again.
    Busy,
}

impl Schema {
    /// A schema to be used. `Err` says why it cannot be.
    pub(crate) fn new(schema: &Value) -> Result<Schema, String> {
        let shape = Shape::of(schema)?;
        let small = build(schema, PATTERN_SIZE);
        let (validator, pattern_byte) = match small {
            Ok(validator) => (validator, PATTERN_BYTE),
            Err(_) if shape.patterns > 0 => (build(schema, PATTERN_SIZE_MAX)?, PATTERN_BYTE_MAX),
            Err(error) => return Err(error),
        };
        Ok(Schema { validator, shape, pattern_byte: if shape.patterns > 0 { pattern_byte } else { 0 } })
    }

    /// Bytes that it may occupy.
    pub(crate) fn bytes(&self) -> usize {
        let pattern = if self.pattern_byte > PATTERN_BYTE { PATTERN_SIZE_MAX } else { PATTERN_SIZE };
        self.shape.patterns * pattern
    }

    fn budget(&self, accesses: u64) -> Budget {
        Budget {
            accesses,
            pattern_byte: self.pattern_byte,
            name_byte: self.pattern_byte * self.shape.name_patterns as u64,
            visit: 1 + self.shape.expanded / SUBSCHEMAS,
        }
    }

    /// Whether a value is valid. `Err` if that cannot be found out for so many accesses.
    fn is_valid(&self, value: &Value, accesses: u64) -> Result<bool, Spent> {
        meter::within(self.budget(accesses), || self.validator.is_valid(ReportAnswer(value)))
    }

    /// Whether a value is valid, and why it is not.
    ///
    /// # Errors
    /// If it is not, or comparing it costs too much, or others are compared for too long.
    pub(crate) async fn check(self: &Arc<Schema>, value: &Value) -> Result<(), Unfit> {
        let first = self.is_valid(value, ACCESSES_AT_ONCE);
        let valid = match first {
            Ok(valid) => Ok(valid),
            Err(Spent) => {
                let (schema, value) = (self.clone(), value.clone());
                apart(move || schema.is_valid(&value, ACCESSES_MAX)).await.ok_or(Unfit::Busy)?
            }
        };
        match valid {
            Ok(true) => Ok(()),
            Ok(false) => Err(Unfit::Invalid(self.reasons(value))),
            Err(Spent) => Err(Unfit::Invalid(format!(
                "it is too large to be compared with the schema: that takes more than {ACCESSES_MAX} steps"
            ))),
        }
    }

    /// Why a value is not valid.
    fn reasons(&self, value: &Value) -> String {
        let collected = meter::within(self.budget(ACCESSES_FOR_REASONS), || {
            let errors = self.validator.iter_errors(ReportAnswer(value));
            let reasons = errors.take(REASONS_MAX).map(|error| match error.instance_path().to_string() {
                path if path.is_empty() => shortened(&error),
                path => format!("{}: {}", shortened(&path), shortened(&error)),
            });
            reasons.collect::<Vec<_>>()
        });
        let reasons = collected.unwrap_or_default();
        if reasons.is_empty() { "it is not what the schema describes".to_owned() } else { reasons.join("; ") }
    }
}

fn build(schema: &Value, pattern_size: usize) -> Result<Validator<CountedJson>, String> {
    let patterns = PatternOptions::regex().size_limit(pattern_size).dfa_size_limit(pattern_size);
    let options = jsonschema::options_for::<CountedJson>().with_pattern_options(patterns);
    // Whether a text is a regular expression is found out by compiling it, which is not bounded.
    options.with_format("regex", |_: &str| true).build(schema).map_err(|error| shortened(&error))
}

/// The beginning of a text: it may hold a whole value.
fn shortened(text: &impl fmt::Display) -> String {
    struct Beginning(String, usize);
    impl fmt::Write for Beginning {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            for character in text.chars() {
                if self.1 == 0 {
                    self.0.push('…');
                    return Err(fmt::Error);
                }
                self.1 -= 1;
                self.0.push(character);
            }
            Ok(())
        }
    }
    let mut beginning = Beginning(String::new(), REASON_CHARACTERS_MAX);
    // The error is the end of the text.
    let _ = write!(beginning, "{text}");
    beginning.0
}

#[cfg(test)]
mod tests;
