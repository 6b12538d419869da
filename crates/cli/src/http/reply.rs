//! Errors as every client of the server sees them: a status and `{"error": "…"}`.

use axum::{
    body::to_bytes,
    http::{Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use web::ApiError;

/// The longest part of a path that an error repeats: enough to recognise a typing mistake.
const SHOWN_PATH_CHARS: usize = 200;

/// The longest plain text that is turned into a message: the framework's own are a line.
const MESSAGE_BYTES: usize = 4 * 1024;

/// Gives errors that come as plain text (a body that is too large, or not JSON, or not said to be) the form of all others.
pub(super) async fn as_json(response: Response) -> Response {
    let status = response.status();
    let is_plain =
        response.headers().get(header::CONTENT_TYPE).is_some_and(|it| it.as_bytes().starts_with(b"text/plain"));
    if !(is_plain && (status.is_client_error() || status.is_server_error())) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let text = to_bytes(body, MESSAGE_BYTES).await.unwrap_or_default();
    let (own, body) = error(status, &String::from_utf8_lossy(&text)).into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.extend(own.headers);
    Response::from_parts(parts, body)
}

/// An error response. `message` reaches the client: it holds no text from the database.
pub(super) fn error(status: StatusCode, message: &str) -> Response {
    ApiError::new(status, message).into_response()
}

/// A refusal that passes by itself.
pub(super) fn unavailable(message: &str) -> Response {
    ApiError::unavailable(message).into_response()
}

/// The connection was only taken to answer health and metrics. There are clients that give up unless the text has this word.
pub(super) async fn too_many_connections() -> Response {
    unavailable("too many connections are open; try again")
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
