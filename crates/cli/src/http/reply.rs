//! Errors of the server itself: a status and `{"error": "…"}`.

use axum::{
    body::to_bytes,
    http::{Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use reveille_web::ApiError;

/// How much of a path an error quotes: enough to recognise a typing mistake.
const SHOWN_PATH_CHARS: usize = 200;

/// The longest plain text that is turned into a message: the framework's are one line.
const MESSAGE_BYTES: usize = 4 * 1024;

/// Turns plain-text errors of the framework into JSON errors.
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

/// An error response. `message` reaches the client: it must not contain text of the database.
pub(super) fn error(status: StatusCode, message: &str) -> Response {
    ApiError::new(status, message).into_response()
}

/// 503 with `Retry-After`.
pub(super) fn unavailable(message: &str) -> Response {
    ApiError::unavailable(message).into_response()
}

/// For a connection in the reserve. Existing queue clients retry only if the text contains the word "connection".
pub(super) async fn too_many_connections() -> Response {
    unavailable("too many connections are open; retry")
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
