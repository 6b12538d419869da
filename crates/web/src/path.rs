//! Names in a path, decoded.

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path as Decoded};
use axum::http::request::Parts;

use crate::error::ApiError;
use crate::plain::plain;

/// The names in the path of a request.
#[derive(Debug)]
pub struct Path<T>(pub T);

impl<S: Send + Sync, T> FromRequestParts<S> for Path<T>
where
    Decoded<T>: FromRequestParts<S, Rejection = PathRejection>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Path<T>, ApiError> {
        match Decoded::from_request_parts(parts, state).await {
            Ok(Decoded(names)) => Ok(Path(names)),
            Err(rejection) => {
                Err(ApiError::bad_request(format!("the path cannot be read: {}", plain(&rejection.body_text()))))
            }
        }
    }
}
