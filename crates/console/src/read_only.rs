//! A console that may only read.

use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use reveille_web::ApiError;

/// Rejects requests of the API with an effect that a browser sends. Programs send neither of the two headers, and are
/// not affected.
pub async fn refuse_effects(request: Request, next: Next) -> Response {
    if is_refused(request.method(), request.headers()) {
        let why = "the console may only read: the server was started with --console-read-only";
        return ApiError::new(StatusCode::FORBIDDEN, why).into_response();
    }
    next.run(request).await
}

fn is_refused(method: &Method, headers: &HeaderMap) -> bool {
    let reads = [Method::GET, Method::HEAD, Method::OPTIONS].contains(method);
    !reads && (headers.contains_key("sec-fetch-site") || headers.contains_key(header::ORIGIN))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    /// A browser may read, and change nothing; a program may do both.
    #[test]
    fn only_effects_of_browsers_are_refused() {
        let browser = HeaderMap::from_iter([(header::ORIGIN, HeaderValue::from_static("http://localhost"))]);
        assert!(is_refused(&Method::POST, &browser) && is_refused(&Method::DELETE, &browser));
        assert!(!is_refused(&Method::GET, &browser) && !is_refused(&Method::POST, &HeaderMap::new()));
    }
}
