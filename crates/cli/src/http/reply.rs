//! Errors as every client of the server sees them: a status and `{"error": "…"}`.

use axum::{
    Json,
    http::{Method, StatusCode, Uri},
    response::{IntoResponse, Response},
};
use serde_json::json;

/// The longest part of a path that an error repeats: enough to recognise a typing mistake.
const SHOWN_PATH_CHARS: usize = 200;

/// An error response. `message` reaches the client: it holds no text from the database.
pub(super) fn error(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({ "error": message }))).into_response()
}

/// No such path.
pub(super) async fn not_found(method: Method, uri: Uri) -> Response {
    error(StatusCode::NOT_FOUND, &format!("no route for {method} {}", shown(&uri)))
}

/// The path exists, the method does not. The router adds the `allow` header.
pub(super) async fn method_not_allowed(method: Method, uri: Uri) -> Response {
    error(StatusCode::METHOD_NOT_ALLOWED, &format!("{method} is not allowed on {}", shown(&uri)))
}

fn shown(uri: &Uri) -> String {
    uri.path().chars().take(SHOWN_PATH_CHARS).collect()
}
