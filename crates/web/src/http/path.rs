//! The parameters in a path, decoded.

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path as Decoded};
use axum::http::request::Parts;

use super::error::ApiError;
use crate::plain::plain;

/// The parameters in the path of a request.
#[derive(Debug)]
pub struct Path<T>(pub T);

impl<S: Send + Sync, T> FromRequestParts<S> for Path<T>
where
    Decoded<T>: FromRequestParts<S, Rejection = PathRejection>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Path<T>, ApiError> {
        match Decoded::from_request_parts(parts, state).await {
            Ok(Decoded(parameters)) => Ok(Path(parameters)),
            Err(rejection) => Err(ApiError::bad_request(format!("invalid path: {}", plain(&rejection.body_text())))),
        }
    }
}
