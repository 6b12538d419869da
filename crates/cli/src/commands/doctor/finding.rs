//! The results of checks, and how they are printed.

use std::fmt;

use super::super::say;
use crate::{config::redact, error::Error};

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// No problem.
    Ok,
    /// Works, with a limitation.
    Warn,
    /// Does not work.
    Fail,
}

/// One check's result.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) status: Status,
    what: &'static str,
    text: String,
    fix: Option<String>,
}

impl Finding {
    pub(super) fn ok(what: &'static str, text: impl Into<String>) -> Self {
        Self { status: Status::Ok, what, text: text.into(), fix: None }
    }

    pub(super) fn warn(what: &'static str, text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { status: Status::Warn, what, text: text.into(), fix: Some(fix.into()) }
    }

    pub(super) fn fail(what: &'static str, text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { status: Status::Fail, what, text: text.into(), fix: Some(fix.into()) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.status {
            Status::Ok => "ok  ",
            Status::Warn => "warn",
            Status::Fail => "fail",
        };
        // The text may quote a message of the server or driver with a password; the fix never does.
        write!(f, "{mark}  {}: {}", self.what, redact(&self.text))?;
        match &self.fix {
            Some(fix) => write!(f, "\n      fix: {fix}"),
            None => Ok(()),
        }
    }
}

/// All findings so far. Each is printed when it is made: the next check may take a while.
#[derive(Default)]
pub(super) struct Report {
    checks: usize,
    warnings: usize,
    failed: usize,
}

impl Report {
    /// Prints a finding. `None` if it failed, so that a caller can stop with `?`.
    pub(super) fn add(&mut self, finding: Finding) -> Option<()> {
        say(&finding);
        self.checks += 1;
        match finding.status {
            Status::Ok => Some(()),
            Status::Warn => {
                self.warnings += 1;
                Some(())
            }
            Status::Fail => {
                self.failed += 1;
                None
            }
        }
    }

    /// Prints a line that is no finding.
    pub(super) fn note(&self, text: &str) {
        say(text);
    }

    /// The sum of it all.
    ///
    /// # Errors
    /// [`Error::ChecksFailed`] if a check failed.
    pub(super) fn finish(self) -> Result<(), Error> {
        if self.failed > 0 {
            return Err(Error::ChecksFailed { failed: self.failed, checks: self.checks });
        }
        match self.warnings {
            0 => say("all is well"),
            1 => say("all works, with 1 warning"),
            warnings => say(format_args!("all works, with {warnings} warnings")),
        }
        Ok(())
    }
}
