//! Errors.
/// The result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option is wrong.
    #[error("option `{option}`: {reason}")]
    Config {
        /// Which.
        option: &'static str,
        /// Why.
        reason: String,
    },
    /// Refused.
    #[error("the database refused the statement")]
    Refused(#[source] sqlx::Error),
}

impl Error {
    pub(crate) fn config(option: &'static str, reason: impl Into<String>) -> Error {
        Error::Config { option, reason: reason.into() }
    }
    /// Whether trying again can help.
    pub fn is_transient(&self) -> bool {
        false
    }
    /// Whether it may have happened all the same.
    pub fn is_ambiguous(&self) -> bool {
        false
    }
    /// The server's code.
    pub fn sqlstate(&self) -> Option<&str> {
        None
    }
    /// A text for clients.
    pub fn client_message(&self) -> &'static str {
        "the database refused the statement"
    }
}

impl From<sqlx::Error> for Error {
    fn from(source: sqlx::Error) -> Error {
        Error::Refused(source)
    }
}
