//! What goes wrong, as a client sees it: a status and `{"error": "…"}`.
//!
//! The one place where errors become answers. A client of the field reads the text of an error, too: a consumer goes on, a second later, if it finds the word "connection" in it,
//! and ends for good otherwise. So whatever passes by itself says that word.

use std::fmt::Display;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::Error;

/// How soon a client may try again, in seconds.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");
/// For whoever looks here while the database is away.
const AWAY: &str = "no connection to the database at the moment; try again";

/// An answer that is not what was asked for.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    message: String,
    /// It passes by itself.
    passes: bool,
}

/// The body of every answer that is not 2xx.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Failure {
    /// What is wrong, in a sentence.
    error: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Refusal {
        Refusal { status, message: message.into(), passes: false }
    }

    /// The request cannot be meant. Nothing was done.
    pub(crate) fn bad(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, message)
    }

    /// The same, of a part of a list: the error says which field, and `place` which part.
    pub(crate) fn at(place: impl Display, error: Error) -> Refusal {
        match error {
            Error::Invalid { what, reason } => Refusal::bad(format!("{place}{what}: {reason}")),
            other => other.into(),
        }
    }

    /// There is no such thing.
    pub(crate) fn not_found(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, message)
    }

    fn later(message: impl Into<String>) -> Refusal {
        Refusal { status: StatusCode::SERVICE_UNAVAILABLE, message: message.into(), passes: true }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        match &error {
            Error::Invalid { .. } => Refusal::bad(error.to_string()),
            Error::RolledBack { .. } => Refusal::new(StatusCode::CONFLICT, error.to_string()),
            // Another server may have the key: a client that knows several tries the next.
            Error::NoKey { .. } | Error::WrongKey { .. } => {
                Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
            }
            Error::Wake(wake::Error::Full { limit, .. }) => {
                Refusal::later(format!("too many waiting connections: {limit} wait already; try again"))
            }
            Error::Wake(wake::Error::Closed { .. }) | Error::Database(pg::Error::Closed) => {
                Refusal::later("the server is stopping; use another connection")
            }
            _ if error.is_transient() => {
                // Of a database that is away the log speaks elsewhere, once, and not once for each client.
                tracing::debug!(error = pg::causes(&error), "a request could not be carried out for now");
                Refusal::later(AWAY)
            }
            _ => {
                tracing::error!(error = pg::causes(&error), "a request could not be carried out");
                Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the database refused the operation; the log says why")
            }
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(Failure { error: self.message })).into_response();
        if self.passes {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::body::to_bytes;

    use super::*;

    async fn answered(error: impl Into<Error>) -> (u16, Option<String>, String) {
        let response = Refusal::from(error.into()).into_response();
        let after = response.headers().get(header::RETRY_AFTER).map(|it| it.to_str().expect("text").to_owned());
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), 1 << 10).await.expect("a small body");
        let body: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        (status, after, body["error"].as_str().expect("a sentence").to_owned())
    }

    fn broken() -> pg::Error {
        pg::Error::from(sqlx::Error::Io(std::io::Error::other("secret of the database")))
    }

    /// What passes by itself must say when to come back and keep a consumer of the field alive, which looks for a word in the text.
    #[tokio::test]
    async fn what_passes_says_when_and_that_it_is_about_a_connection() {
        let (consumer, what) = (Arc::from("pop"), Arc::from("push"));
        let source = Arc::new(broken());
        for error in [
            Error::from(wake::Error::Full { consumer, limit: 7 }),
            Error::from(wake::Error::Closed { what: Arc::from("pop") }),
            Error::from(wake::Error::Unavailable { what, source }),
            Error::from(broken()),
        ] {
            let (status, after, text) = answered(error).await;
            assert_eq!((status, after.as_deref()), (503, Some("1")), "{text}");
            assert!(text.contains("connection") && !text.contains("secret"), "{text}");
        }
    }

    /// What cannot be meant is the client's to correct; what the database refuses is not, and its words stay here.
    #[tokio::test]
    async fn what_does_not_pass_says_whose_it_is() {
        let (status, after, text) = answered(Error::invalid("queue", "it is empty")).await;
        assert_eq!((status, after, text.as_str()), (400, None, "queue: it is empty"));
        let refused = pg::Error::Refused { code: "22000".into(), source: sqlx::Error::Protocol("secret".into()) };
        let (status, after, text) = answered(refused).await;
        assert_eq!((status, after), (500, None));
        assert!(!text.contains("secret"), "{text}");
    }
}
