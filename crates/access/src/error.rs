//! Errors, by what the caller can do.

use reveille_web::ApiError;

/// The result of an operation on tokens.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation on tokens failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter is invalid.
    #[error("invalid parameter `{name}`: {reason}")]
    Invalid {
        /// The parameter.
        name: &'static str,
        /// What is allowed, and what was given.
        reason: String,
    },
    /// The name is in use: choose another, or revoke that token first.
    #[error("there is a token of the name {name:?} already; revoke it first, or choose another name")]
    Taken {
        /// The name.
        name: String,
    },
    /// The operating system has no random numbers.
    #[error("the operating system has no random numbers")]
    Random(#[source] getrandom::Error),
    /// The database.
    #[error(transparent)]
    Database(#[from] reveille_pg::Error),
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Error {
        Error::Database(error.into())
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> ApiError {
        match error {
            Error::Invalid { .. } => ApiError::bad_request(error.to_string()),
            Error::Taken { .. } => ApiError::new(axum::http::StatusCode::CONFLICT, error.to_string()),
            Error::Random(_) => {
                tracing::error!(error = reveille_pg::causes(&error), "cannot create a token");
                ApiError::new(axum::http::StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
            }
            Error::Database(error) => error.into(),
        }
    }
}
