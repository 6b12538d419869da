//! JSON Schema validation within bounds.
//!
//! Both the schema and the value come from clients, so the time, memory and stack of a validation are bounded:
//! [`Shape`] limits how large a schema is when it is registered, [`meter`] limits the cost of a validation. The first
//! pass only decides whether the value is valid and allocates nothing. The reasons are collected in a second pass with
//! a budget of its own. Cheap validations run inline, expensive ones on a blocking thread ([`apart`]).

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

/// The most accesses of a validation: about a second.
pub(crate) const ACCESSES_MAX: u64 = 10_000_000;
/// The most accesses of a validation on a runtime thread: about a millisecond.
const ACCESSES_AT_ONCE: u64 = 10_000;
/// The budget for collecting reasons. Each may become an error of a few hundred bytes.
const ACCESSES_FOR_REASONS: u64 = 20_000;
/// The most reasons in a message, and the characters of each.
const REASONS_MAX: usize = 5;
const REASON_CHARACTERS_MAX: usize = 200;
/// Expensive validations and template checks that run at the same time. Two, so that a slow one does not delay all
/// others.
const LARGE_AT_ONCE: usize = 2;
/// How long a validation waits for a slot.
const TURN_WITHIN: Duration = Duration::from_secs(10);
/// The compiled size of a regular expression in bytes: what most need, and the maximum.
const PATTERN_SIZE: usize = 64 << 10;
const PATTERN_SIZE_MAX: usize = 1 << 20;
/// The price per byte that such expressions scan. A byte costs at most one step per state, and the smaller size has
/// some thousand states.
const PATTERN_BYTE: u64 = 16;
const PATTERN_BYTE_MAX: u64 = 256;
/// Subschemas that are evaluated for the price of one access.
const SUBSCHEMAS: u64 = 100;

static LARGE: Semaphore = Semaphore::const_new(LARGE_AT_ONCE);

/// Runs work that may take a second on a blocking thread, a few at a time. `None`: no slot became free in time.
pub(crate) async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let turn = tokio::time::timeout(TURN_WITHIN, LARGE.acquire()).await.ok()?.ok()?;
    let done = tokio::task::spawn_blocking(move || {
        // The caller may be dropped: the slot stays taken until the work is done.
        let _turn = turn;
        work()
    });
    match done.await {
        Ok(done) => Some(done),
        Err(error) => error.try_into_panic().map_or(None, |panic| std::panic::resume_unwind(panic)),
    }
}

/// A compiled JSON Schema.
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

/// Why a value was not accepted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SchemaError {
    /// It does not match the schema, or validating it is too expensive.
    Invalid(String),
    /// Too many validations are running; retry.
    Busy,
}

impl Schema {
    /// Compiles a schema. `Err` says why it is not accepted.
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

    /// The memory that it may need.
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

    /// Whether a value is valid. `Err` if that takes more accesses.
    fn is_valid(&self, value: &Value, accesses: u64) -> Result<bool, Spent> {
        meter::within(self.budget(accesses), || self.validator.is_valid(ReportAnswer(value)))
    }

    /// Validates a value.
    ///
    /// # Errors
    /// If it is invalid, too expensive to validate, or no slot became free in time.
    pub(crate) async fn check(self: &Arc<Schema>, value: &Value) -> Result<(), SchemaError> {
        let first = self.is_valid(value, ACCESSES_AT_ONCE);
        let valid = match first {
            Ok(valid) => Ok(valid),
            Err(Spent) => {
                let (schema, value) = (self.clone(), value.clone());
                apart(move || schema.is_valid(&value, ACCESSES_MAX)).await.ok_or(SchemaError::Busy)?
            }
        };
        match valid {
            Ok(true) => Ok(()),
            Ok(false) => Err(SchemaError::Invalid(self.reasons(value))),
            Err(Spent) => {
                Err(SchemaError::Invalid(format!("too expensive to validate: takes more than {ACCESSES_MAX} steps")))
            }
        }
    }

    /// The reasons why a value is invalid.
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
        if reasons.is_empty() { "does not match the schema".to_owned() } else { reasons.join("; ") }
    }
}

fn build(schema: &Value, pattern_size: usize) -> Result<Validator<CountedJson>, String> {
    let patterns = PatternOptions::regex().size_limit(pattern_size).dfa_size_limit(pattern_size);
    let options = jsonschema::options_for::<CountedJson>().with_pattern_options(patterns);
    // The format "regex" is checked by compiling the text, which is not bounded, so it is not checked.
    options.with_format("regex", |_: &str| true).build(schema).map_err(|error| shortened(&error))
}

/// The beginning of a text, which may quote a whole value.
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
    // The write fails when the limit is reached.
    let _ = write!(beginning, "{text}");
    beginning.0
}

#[cfg(test)]
mod tests;
