//! Building failures in handlers.
//!
//! In a handler `?` turns any error into a failure that is retried. Use [`Failure::permanent`] for errors that a retry
//! cannot fix.

use std::time::Duration;

use serde::Serialize;

use crate::complete::Failure;
use crate::json::Json;

impl Failure {
    /// A failure that is retried.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure {
            message: message.into(),
            kind: None,
            retryable: true,
            status_code: None,
            context: None,
            retry_delay_ms: None,
        }
    }

    /// A failure that is not retried.
    pub fn permanent(message: impl Into<String>) -> Failure {
        Failure { retryable: false, ..Failure::new(message) }
    }

    /// Sets the kind of the failure, for people and filters.
    pub fn of_kind(self, kind: impl Into<String>) -> Failure {
        Failure { kind: Some(kind.into()), ..self }
    }

    /// Sets the pause before the next attempt, instead of the template's backoff.
    pub fn after(self, pause: Duration) -> Failure {
        Failure { retry_delay_ms: Some(u32::try_from(pause.as_millis()).unwrap_or(u32::MAX)), ..self }
    }

    /// Adds details that help to understand the failure. Ignored if they cannot be serialized.
    pub fn with_context(self, context: impl Serialize) -> Failure {
        Failure { context: Json::from_serialize(&context).ok(), ..self }
    }

    /// A value does not have the type that the handler expects. A retry would fail the same way.
    pub(super) fn shape(message: String) -> Failure {
        Failure::permanent(message).of_kind("shape")
    }
}

/// Lets `?` work in handlers. For this reason `Failure` does not implement `std::error::Error`.
impl<E: std::error::Error + 'static> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::new(reveille_pg::causes(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error passed on with `?` keeps its causes and is retried.
    #[test]
    fn an_error_becomes_a_failure() {
        let fails = || -> Result<(), Failure> { Ok("x".parse::<u8>().map(drop)?) };
        let failure = fails().expect_err("no number");
        assert_eq!((failure.message.as_str(), failure.retryable), ("invalid digit found in string", true));
        let failure = Failure::permanent("no").of_kind("card").after(Duration::from_secs(1)).with_context(7);
        assert_eq!((failure.retryable, failure.kind.as_deref()), (false, Some("card")));
        assert_eq!((failure.retry_delay_ms, failure.context), (Some(1_000), Some(serde_json::json!(7).into())));
    }
}
