//! What goes wrong, as a client sees it: a status and `{"error": "…"}`.
//!
//! The one place where errors of the engine and the database become answers; a product adds what its own mean. A client of the field reads the text of an error, too: a consumer goes on,
//! a second later, if it finds the word "connection" in it, and ends for good otherwise. So whatever passes by itself says that word. No text of the database reaches a client.

use std::error::Error as StdError;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use pg::shortage::Shortage;
use serde::Serialize;
use utoipa::ToSchema;

/// How soon a client may try again, in seconds.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");
/// The longest sentence, in bytes: it may quote what a client sent.
const MESSAGE_MAX: usize = 1_000;
/// For whoever looks here while the database is away.
const AWAY: &str = "no connection to the database at the moment; try again";
/// For whoever comes while the process ends.
const STOPPING: &str = "the server is stopping; use another connection";

/// An answer that is not what was asked for.
#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    message: String,
    /// It passes by itself.
    passes: bool,
    /// What else the answer says, as a JSON object.
    more: serde_json::Map<String, serde_json::Value>,
}

/// The body of every answer that is not 2xx.
#[derive(Debug, Serialize, ToSchema)]
pub struct Failure {
    /// What is wrong, in a sentence.
    error: String,
}

impl ApiError {
    /// A refusal that does not pass by itself.
    pub fn new(status: StatusCode, message: impl Into<String>) -> ApiError {
        ApiError { status, message: shortened(message.into()), passes: false, more: serde_json::Map::new() }
    }

    /// The request cannot be meant. Nothing was done.
    pub fn bad_request(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, message)
    }

    /// A time was expected.
    pub fn not_a_timestamp(what: &str, text: &str) -> ApiError {
        ApiError::bad_request(format!("{what}: {text:?} is not a time such as 2026-01-31T12:00:00Z"))
    }

    /// There is no such thing.
    pub fn not_found(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, message)
    }

    /// It passes by itself: the answer says when to try again.
    pub fn unavailable(message: impl Into<String>) -> ApiError {
        ApiError { passes: true, ..ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message) }
    }

    /// With something beside the sentence that a program can read.
    pub fn with(mut self, key: &str, value: impl Into<serde_json::Value>) -> ApiError {
        self.more.insert(key.to_owned(), value.into());
        self
    }

    /// The sentence.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What the database could not do now, or not at all.
    fn failed(error: &(dyn StdError + 'static), passes: bool, short: Option<Shortage>) -> ApiError {
        if passes {
            // Of a database that is away the log speaks elsewhere, once, and not once for each client.
            tracing::debug!(error = pg::causes(error), "a request could not be carried out for now");
            ApiError::unavailable(short.map_or(AWAY, Shortage::client_message))
        } else {
            tracing::error!(error = pg::causes(error), "a request could not be carried out");
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "the database refused the operation; the log says why")
        }
    }
}

/// A sentence that is not too long, with how much is missing.
fn shortened(mut message: String) -> String {
    if message.len() > MESSAGE_MAX {
        let whole = message.len();
        message.truncate(message.floor_char_boundary(MESSAGE_MAX));
        let missing = whole - message.len();
        message.push_str(&format!("… and {missing} bytes more"));
    }
    message
}

impl From<wake::Error> for ApiError {
    fn from(error: wake::Error) -> ApiError {
        match &error {
            wake::Error::Full { limit, .. } => {
                ApiError::unavailable(format!("too many waiting connections: {limit} wait already; try again"))
            }
            wake::Error::Closed { .. } => ApiError::unavailable(STOPPING),
            _ => {
                let short = error.database().and_then(pg::Error::shortage);
                ApiError::failed(&error, error.is_transient(), short)
            }
        }
    }
}

impl From<pg::Error> for ApiError {
    fn from(error: pg::Error) -> ApiError {
        match &error {
            pg::Error::Closed => ApiError::unavailable(STOPPING),
            _ => ApiError::failed(&error, error.is_transient(), error.shortage()),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let failure = Failure { error: self.message };
        let mut response = if self.more.is_empty() {
            (self.status, Json(failure)).into_response()
        } else {
            let mut body = serde_json::Map::from_iter([("error".to_owned(), failure.error.into())]);
            body.extend(self.more);
            (self.status, Json(body)).into_response()
        };
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

    async fn answered(refusal: impl Into<ApiError>) -> (u16, Option<String>, serde_json::Value) {
        let response = refusal.into().into_response();
        let after = response.headers().get(header::RETRY_AFTER).map(|it| it.to_str().expect("text").to_owned());
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), 1 << 12).await.expect("a small body");
        (status, after, serde_json::from_slice(&body).expect("JSON"))
    }

    fn broken() -> pg::Error {
        pg::Error::from(sqlx::Error::Io(std::io::Error::other("secret of the database")))
    }

    /// What passes by itself must say when to come back and keep a consumer of the field alive, which looks for a word in the text.
    #[tokio::test]
    async fn what_passes_says_when_and_that_it_is_about_a_connection() {
        let (consumer, what) = (Arc::from("pop"), Arc::from("push"));
        let source = Arc::new(broken());
        for refusal in [
            ApiError::from(wake::Error::Full { consumer, limit: 7 }),
            ApiError::from(wake::Error::Closed { what: Arc::from("pop") }),
            ApiError::from(wake::Error::Unavailable { what, source }),
            ApiError::from(broken()),
            ApiError::from(pg::Error::Closed),
        ] {
            let (status, after, body) = answered(refusal).await;
            assert_eq!((status, after.as_deref()), (503, Some("1")), "{body}");
            let text = body["error"].as_str().expect("a sentence");
            assert!(text.contains("connection") && !text.contains("secret"), "{text}");
        }
    }

    /// A database that is short of something is told by what it lacks, so that a client's log says it; nothing of the server's own text is told.
    /// The error is a real server's: it is raised there.
    #[tokio::test]
    async fn a_full_disk_is_told_by_name() {
        let db = pg::testing::TestDb::new().await;
        let full = "do $$ begin raise exception 'secret' using errcode = '53100'; end $$";
        let error = sqlx::raw_sql(full).execute(db.database().pool()).await.expect_err("raised");
        let source = Arc::new(pg::Error::from(error));
        let (status, after, body) = answered(wake::Error::Unavailable { what: Arc::from("push"), source }).await;
        assert_eq!((status, after.as_deref()), (503, Some("1")));
        let text = body["error"].as_str().expect("a sentence");
        assert!(text.contains("disk is full") && text.contains("connection") && !text.contains("secret"), "{text}");
    }

    /// What the database refuses is not the client's to correct, and its words stay here.
    #[tokio::test]
    async fn what_does_not_pass_tells_no_details() {
        let refused = pg::Error::Refused { code: "22000".into(), source: sqlx::Error::Protocol("secret".into()) };
        let (status, after, body) = answered(refused).await;
        assert_eq!((status, after), (500, None));
        assert!(!body.to_string().contains("secret"), "{body}");
    }

    /// A sentence that quotes a megabyte is cut, between two characters, and says so.
    #[tokio::test]
    async fn a_long_sentence_is_cut() {
        let (_, _, body) = answered(ApiError::bad_request("é".repeat(500_001))).await;
        let text = body["error"].as_str().expect("a sentence");
        assert!(text.len() < 1_100 && text.ends_with("é… and 999002 bytes more"), "{text}");
        let (_, _, body) = answered(ApiError::bad_request("a".repeat(1_000))).await;
        assert_eq!(body["error"], "a".repeat(1_000));
    }

    /// What a program is told stands beside the sentence for people.
    #[tokio::test]
    async fn more_than_a_sentence_can_be_said() {
        let (status, _, body) = answered(ApiError::bad_request("wrong").with("line", 7)).await;
        assert_eq!((status, body), (400, serde_json::json!({"error": "wrong", "line": 7})));
    }
}
