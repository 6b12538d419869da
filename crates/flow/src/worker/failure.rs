//! Failures, as handlers make them.
//!
//! In a handler `?` turns any error into a failure that is tried again. What another attempt would only meet again is [`Failure::permanent`].

use std::time::Duration;

use serde::Serialize;

use crate::complete::Failure;
use crate::exact::Json;

impl Failure {
    /// One that another attempt may mend.
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

    /// One that no other attempt would mend.
    pub fn permanent(message: impl Into<String>) -> Failure {
        Failure { retryable: false, ..Failure::new(message) }
    }

    /// The same, of a kind that people can look for.
    pub fn of_kind(self, kind: impl Into<String>) -> Failure {
        Failure { kind: Some(kind.into()), ..self }
    }

    /// The same, to be tried again after this pause instead of the template's.
    pub fn after(self, pause: Duration) -> Failure {
        Failure { retry_delay_ms: Some(u32::try_from(pause.as_millis()).unwrap_or(u32::MAX)), ..self }
    }

    /// The same, with whatever helps to understand it. What is not JSON is left out.
    pub fn with_context(self, context: impl Serialize) -> Failure {
        Failure { context: Json::from_serialize(&context).ok(), ..self }
    }

    /// Something is not what the handler takes it for: another attempt would meet the same.
    pub(super) fn shape(message: String) -> Failure {
        Failure::permanent(message).of_kind("shape")
    }
}

/// So that `?` works in handlers. That is why a failure is no error itself.
impl<E: std::error::Error + 'static> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::new(pg::causes(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error that is passed on with `?` is told with its causes, and tried again.
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
