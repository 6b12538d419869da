//! Names in a path, decoded.

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path as Decoded};
use axum::http::request::Parts;

use crate::plain::plain;
use crate::refusal::Refusal;

/// The names in the path of a request.
#[derive(Debug)]
pub struct Path<T>(pub T);

impl<S: Send + Sync, T> FromRequestParts<S> for Path<T>
where
    Decoded<T>: FromRequestParts<S, Rejection = PathRejection>,
{
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Path<T>, Refusal> {
        match Decoded::from_request_parts(parts, state).await {
            Ok(Decoded(names)) => Ok(Path(names)),
            Err(rejection) => Err(Refusal::bad(format!("the path cannot be read: {}", plain(&rejection.body_text())))),
        }
    }
}
