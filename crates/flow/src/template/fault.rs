//! Faults of a template, and where they are.

use std::fmt;

use serde::Serialize;
use serde_saphyr::Location;

/// Faults that are reported for one template; those that follow are usually consequences.
const FAULTS_MAX: usize = 50;

/// Faults that are collected while a template is checked: each of ten thousand steps may have some.
const FOUND_MAX: usize = 100_000;
/// The longest message in bytes: it may quote a name of any length.
const MESSAGE_MAX: usize = 500;

/// A fault of a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The line of the text, from 1; 0 if the fault concerns the text as a whole.
    pub line: u64,
    /// The column in that line, from 1.
    pub column: u64,
    /// What is wrong, and what is allowed.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}, column {}: ", self.line, self.column)?;
        }
        f.write_str(&self.message)
    }
}

/// All faults of a template, in the order of its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
pub struct Faults(Vec<Fault>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("; ")?;
            }
            fault.fmt(f)?;
        }
        Ok(())
    }
}

impl Faults {
    /// The faults one by one.
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.0.iter()
    }

    pub(super) fn one(at: Location, message: impl Into<String>) -> Faults {
        let mut faults = Collected::default();
        faults.add(at, message);
        Faults(faults.found)
    }
}

/// Collects faults while a template is checked.
#[derive(Default)]
pub(super) struct Collected {
    found: Vec<Fault>,
    /// The template was registered before: limits introduced since then are not checked.
    pub(super) reads_again: bool,
    /// The memory that its regular expressions may need so far.
    pub(super) pattern_bytes: usize,
}

impl Collected {
    /// For a template that was registered before.
    pub(super) fn of_registered() -> Collected {
        Collected { reads_again: true, ..Collected::default() }
    }

    pub(super) fn add(&mut self, at: Location, message: impl Into<String>) {
        let mut message = message.into();
        if message.len() > MESSAGE_MAX {
            message.truncate(message.floor_char_boundary(MESSAGE_MAX));
            message.push('…');
        }
        // The first in the text are reported. Enough are kept to sort them, and no more.
        if self.found.len() < FOUND_MAX {
            self.found.push(Fault { line: at.line(), column: at.column(), message });
        }
    }

    /// Returns the checked value if there are no faults.
    pub(super) fn unless_any<T>(mut self, made: T) -> Result<T, Faults> {
        if self.found.is_empty() {
            return Ok(made);
        }
        self.found.sort_by_key(|fault| (fault.line, fault.column));
        self.found.truncate(FAULTS_MAX);
        Err(Faults(self.found))
    }
}
