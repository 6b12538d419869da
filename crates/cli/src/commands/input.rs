//! Input of commands: an argument, a file, standard input.

use std::path::Path;

use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};

use crate::error::Error;

/// The largest input that is read as a whole, and the longest line: more than any server accepts.
const INPUT_MAX: u64 = 256 * 1024 * 1024;

/// A text in an argument: itself, the content of `@FILE`, or standard input for `-`. `what` is what the text is, for
/// errors.
pub(super) async fn text(what: &str, argument: &str) -> Result<String, Error> {
    match (argument, argument.strip_prefix('@')) {
        ("-", _) => read("standard input", tokio::io::stdin()).await,
        (_, Some(file)) => read_file(Path::new(file)).await,
        ("", None) => Err(Error::Input { what: format!("{what} is empty") }),
        (text, None) => Ok(text.to_owned()),
    }
}

/// JSON in an argument, as [`text`] reads it, with all digits of its numbers.
pub(super) async fn json(what: &str, argument: &str) -> Result<Box<RawValue>, Error> {
    let text = text(what, argument).await?;
    let not_json = |error| Error::Input { what: format!("{what} is not JSON: {error}") };
    RawValue::from_string(text.trim().to_owned()).map_err(not_json)
}

/// The content of a file; `-` is standard input.
pub(super) async fn read_file(file: &Path) -> Result<String, Error> {
    if file == Path::new("-") {
        return read("standard input", tokio::io::stdin()).await;
    }
    let name = file.display().to_string();
    let opened = tokio::fs::File::open(file).await.map_err(|error| unreadable(&name, error))?;
    read(&name, opened).await
}

async fn read(name: &str, source: impl AsyncRead + Unpin) -> Result<String, Error> {
    let mut text = String::new();
    source.take(INPUT_MAX).read_to_string(&mut text).await.map_err(|error| unreadable(name, error))?;
    Ok(text)
}

fn unreadable(name: &str, error: std::io::Error) -> Error {
    Error::Input { what: format!("cannot read {name}: {error}") }
}

/// The lines of a file, one after another.
pub(super) struct Lines {
    name: String,
    source: Box<dyn tokio::io::AsyncBufRead + Unpin + Send>,
    number: u64,
    line: Vec<u8>,
}

impl Lines {
    /// Opens a file; `-` is standard input.
    pub(super) async fn open(file: &Path) -> Result<Lines, Error> {
        if file == Path::new("-") {
            let source = Box::new(BufReader::new(tokio::io::stdin()));
            return Ok(Lines { name: "standard input".into(), source, number: 0, line: Vec::new() });
        }
        let name = file.display().to_string();
        let opened = tokio::fs::File::open(file).await.map_err(|error| unreadable(&name, error))?;
        Ok(Lines { name, source: Box::new(BufReader::new(opened)), number: 0, line: Vec::new() })
    }

    /// The number of the line that was read last, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The next line without its end; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<String>, Error> {
        self.line.clear();
        let read = (&mut self.source).take(INPUT_MAX).read_until(b'\n', &mut self.line).await;
        if read.map_err(|error| unreadable(&self.name, error))? == 0 {
            return Ok(None);
        }
        self.number += 1;
        if self.line.ends_with(b"\n") {
            self.line.pop();
        }
        let line = String::from_utf8(std::mem::take(&mut self.line));
        let what = |_| Error::Input { what: format!("line {} of {} is not UTF-8", self.number, self.name) };
        line.map(Some).map_err(what)
    }
}
