//! The response of a server, as text.

use hyper::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Error;

/// A successful response. Its text is kept as the server sent it.
#[derive(Debug)]
pub struct Answer {
    status: StatusCode,
    text: String,
    server: String,
}

impl Answer {
    pub(super) fn new(status: StatusCode, text: String, server: String) -> Answer {
        Answer { status, text, server }
    }

    /// Its status, between 200 and 299.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The JSON text; empty if the response has no body (204).
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it has no body.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Reads the JSON. Fields that `T` does not have are ignored.
    ///
    /// # Errors
    /// [`Error::Unreadable`]: the server has another version, or is another program.
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Error> {
        self.read(&self.text)
    }

    /// Reads a part of the JSON, which is also kept as text.
    ///
    /// # Errors
    /// As [`Answer::json`].
    pub fn part<'a, T: Deserialize<'a>>(&self, part: &'a RawValue) -> Result<T, Error> {
        self.read(part.get())
    }

    fn read<'a, T: Deserialize<'a>>(&self, text: &'a str) -> Result<T, Error> {
        serde_json::from_str(text).map_err(|source| Error::Unreadable { server: self.server.clone(), source })
    }
}
