//! Errors as a client sees them: a status and `{"error": "…"}`.
//!
//! Maps errors of the engine and the database to responses; a product maps its own. Existing queue clients inspect the
//! text of an error: a consumer retries after a second if it contains the word "connection", and stops otherwise. So
//! the text of every transient error contains that word. No text of the database reaches a client.

use std::error::Error as StdError;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use reveille_pg::shortage::Shortage;
use serde::Serialize;
use utoipa::ToSchema;

/// After how many seconds a client may retry.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");
/// How a client authenticates.
const CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer");
/// The longest message, in bytes: it may quote client input.
const MESSAGE_MAX: usize = 1_000;
/// While the database is not reachable.
const NO_DATABASE: &str = "no connection to the database; retry";
/// While the process stops.
pub(crate) const STOPPING: &str = "the server is stopping; use another connection";

/// An error response.
#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    message: String,
    /// Whether a retry may succeed.
    transient: bool,
    /// Further fields of the body.
    fields: serde_json::Map<String, serde_json::Value>,
}

/// The body of every response that is not 2xx.
#[derive(Debug, Serialize, ToSchema)]
pub struct Failure {
    /// What is wrong, with which value, and what is allowed.
    error: String,
}

impl ApiError {
    /// A permanent error.
    pub fn new(status: StatusCode, message: impl Into<String>) -> ApiError {
        ApiError { status, message: shorten(message.into()), transient: false, fields: serde_json::Map::new() }
    }

    /// 400: the request is invalid and had no effect.
    pub fn bad_request(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, message)
    }

    /// 400: the parameter `name` is no timestamp.
    pub fn not_a_timestamp(name: &str, text: &str) -> ApiError {
        let expected = "must be a timestamp such as 2026-01-31T12:00:00Z";
        ApiError::bad_request(format!("invalid parameter `{name}`: {expected}, got {text:?}"))
    }

    /// 401 with `WWW-Authenticate`: credentials are missing or not valid.
    pub fn unauthenticated(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::UNAUTHORIZED, message)
    }

    /// 404.
    pub fn not_found(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, message)
    }

    /// 503 with `Retry-After`: a transient error.
    pub fn unavailable(message: impl Into<String>) -> ApiError {
        ApiError { transient: true, ..ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message) }
    }

    /// Adds a field to the body, for programs.
    pub fn with(mut self, key: &str, value: impl Into<serde_json::Value>) -> ApiError {
        self.fields.insert(key.to_owned(), value.into());
        self
    }

    /// The message for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// A database error: 503 if it is transient, 500 otherwise.
    fn database(error: &(dyn StdError + 'static), transient: bool, shortage: Option<Shortage>) -> ApiError {
        if transient {
            // An unreachable database is logged once by the pool, not once per request.
            tracing::debug!(error = reveille_pg::causes(error), "request failed: transient database error");
            ApiError::unavailable(shortage.map_or(NO_DATABASE, Shortage::client_message))
        } else {
            tracing::error!(error = reveille_pg::causes(error), "request failed: database error");
            let message = "the database rejected the operation; see the log of the server";
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, message)
        }
    }
}

/// Cuts a message that is too long and says how much is missing.
fn shorten(mut message: String) -> String {
    if message.len() > MESSAGE_MAX {
        let whole = message.len();
        message.truncate(message.floor_char_boundary(MESSAGE_MAX));
        let missing = whole - message.len();
        message.push_str(&format!("… and {missing} bytes more"));
    }
    message
}

impl From<reveille_wake::Error> for ApiError {
    fn from(error: reveille_wake::Error) -> ApiError {
        match &error {
            reveille_wake::Error::Full { limit, .. } => {
                ApiError::unavailable(format!("too many waiting connections: the limit is {limit}; retry"))
            }
            reveille_wake::Error::Closed { .. } => ApiError::unavailable(STOPPING),
            _ => {
                let shortage = error.database().and_then(reveille_pg::Error::shortage);
                ApiError::database(&error, error.is_transient(), shortage)
            }
        }
    }
}

impl From<reveille_pg::Error> for ApiError {
    fn from(error: reveille_pg::Error) -> ApiError {
        match &error {
            reveille_pg::Error::Closed => ApiError::unavailable(STOPPING),
            _ => ApiError::database(&error, error.is_transient(), error.shortage()),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let failure = Failure { error: self.message };
        let mut response = if self.fields.is_empty() {
            (self.status, Json(failure)).into_response()
        } else {
            let mut body = serde_json::Map::from_iter([("error".to_owned(), failure.error.into())]);
            body.extend(self.fields);
            (self.status, Json(body)).into_response()
        };
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, CHALLENGE);
        }
        if self.transient {
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

    /// Status, `Retry-After` and body of an error.
    async fn response(error: impl Into<ApiError>) -> (u16, Option<String>, serde_json::Value) {
        let response = error.into().into_response();
        let after = response.headers().get(header::RETRY_AFTER).map(|it| it.to_str().expect("text").to_owned());
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), 1 << 12).await.expect("a small body");
        (status, after, serde_json::from_slice(&body).expect("JSON"))
    }

    fn broken() -> reveille_pg::Error {
        reveille_pg::Error::from(sqlx::Error::Io(std::io::Error::other("secret of the database")))
    }

    /// A transient error must have `Retry-After`, and the word that makes existing consumers retry.
    #[tokio::test]
    async fn transient_errors_have_retry_after_and_mention_the_connection() {
        let (consumer, what) = (Arc::from("pop"), Arc::from("push"));
        let source = Arc::new(broken());
        for error in [
            ApiError::from(reveille_wake::Error::Full { consumer, limit: 7 }),
            ApiError::from(reveille_wake::Error::Closed { what: Arc::from("pop") }),
            ApiError::from(reveille_wake::Error::Unavailable { what, source }),
            ApiError::from(broken()),
            ApiError::from(reveille_pg::Error::Closed),
        ] {
            let (status, after, body) = response(error).await;
            assert_eq!((status, after.as_deref()), (503, Some("1")), "{body}");
            let text = body["error"].as_str().expect("a message");
            assert!(text.contains("connection") && !text.contains("secret"), "{text}");
        }
    }

    /// A shortage in the database is named to the client, without the text of the database.
    /// The error is raised by a real server.
    #[tokio::test]
    async fn a_full_disk_is_named_to_the_client() {
        let db = reveille_pg::testing::TestDb::new().await;
        let full = "do $$ begin raise exception 'secret' using errcode = '53100'; end $$";
        let error = sqlx::raw_sql(full).execute(db.database().pool()).await.expect_err("raised");
        let source = Arc::new(reveille_pg::Error::from(error));
        let (status, after, body) =
            response(reveille_wake::Error::Unavailable { what: Arc::from("push"), source }).await;
        assert_eq!((status, after.as_deref()), (503, Some("1")));
        let text = body["error"].as_str().expect("a message");
        assert!(text.contains("disk is full") && text.contains("connection") && !text.contains("secret"), "{text}");
    }

    /// A permanent database error is a 500 without the text of the database.
    #[tokio::test]
    async fn permanent_database_errors_reveal_no_details() {
        let refused =
            reveille_pg::Error::Refused { code: "22000".into(), source: sqlx::Error::Protocol("secret".into()) };
        let (status, after, body) = response(refused).await;
        assert_eq!((status, after), (500, None));
        assert!(!body.to_string().contains("secret"), "{body}");
    }

    /// A message that quotes a megabyte is cut, at a character boundary, and says so.
    #[tokio::test]
    async fn a_long_message_is_cut() {
        let (_, _, body) = response(ApiError::bad_request("é".repeat(500_001))).await;
        let text = body["error"].as_str().expect("a message");
        assert!(text.len() < 1_100 && text.ends_with("é… and 999002 bytes more"), "{text}");
        let (_, _, body) = response(ApiError::bad_request("a".repeat(1_000))).await;
        assert_eq!(body["error"], "a".repeat(1_000));
    }

    /// Fields for programs stand beside the message for people.
    #[tokio::test]
    async fn an_error_can_have_further_fields() {
        let (status, _, body) = response(ApiError::bad_request("wrong").with("line", 7)).await;
        assert_eq!((status, body), (400, serde_json::json!({"error": "wrong", "line": 7})));
    }
}
