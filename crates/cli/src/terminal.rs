//! What commands print: tables and sentences for people, exact JSON for programs.
//!
//! - Results go to standard output, everything else to standard error, so that a pipe carries results only.
//! - Colours, the width of the terminal and progress bars appear only on a terminal. `NO_COLOR` switches colours off.
//! - Text of the server is shown without control characters: a message must not be able to drive the terminal.
//! - With `--json` a command prints what the server answered, one document, or one line per element of a stream.

mod confirm;
mod graph;
mod interrupt;
mod json;
mod progress;
mod table;
mod text;
mod timeline;
mod when;

use std::{
    fmt::Display,
    io::{self, IsTerminal as _, Write as _},
};

use serde::Serialize;

pub use confirm::Declined;
pub use graph::{GraphLine, graph};
pub use interrupt::Interrupt;
pub use json::{compact, pretty};
pub use progress::Progress;
pub use table::{Cell, Column, Table};
pub use text::{Style, count_of, printable, truncated, width};
pub use timeline::bar;
pub use when::{ago, duration, parse_when, when};

use crate::error::Error;

/// Where a command prints, and how.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    json: bool,
    colour: bool,
    width: Option<usize>,
    height: Option<usize>,
}

impl Screen {
    /// A screen on the standard streams. `json`: print for programs. `colour`: allow colours on a terminal.
    pub fn new(json: bool, colour: bool) -> Screen {
        let on_terminal = io::stdout().is_terminal();
        let (width, height) = on_terminal.then(size).flatten().unzip();
        Screen { json, colour: colour && on_terminal && !json, width, height }
    }

    /// Whether the result is for programs.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// The columns of the terminal; `None` if standard output is something else.
    pub fn width(&self) -> Option<usize> {
        self.width
    }

    /// The lines of the terminal; `None` if standard output is something else.
    pub fn height(&self) -> Option<usize> {
        self.height
    }

    /// Prints a line of the result.
    ///
    /// # Errors
    /// [`Error::Output`], for example if the reader of a pipe has ended.
    pub fn line(&self, text: impl Display) -> Result<(), Error> {
        let mut out = io::stdout().lock();
        writeln!(out, "{text}").and_then(|()| out.flush()).map_err(Error::Output)
    }

    /// Prints JSON as it is.
    ///
    /// # Errors
    /// As [`Screen::line`].
    pub fn json(&self, text: &str) -> Result<(), Error> {
        self.line(text.trim_end())
    }

    /// Prints JSON as one line, as an element of a stream.
    ///
    /// # Errors
    /// As [`Screen::line`].
    pub fn json_line(&self, text: &str) -> Result<(), Error> {
        self.line(compact(text))
    }

    /// Prints a document that the command itself made.
    ///
    /// # Errors
    /// As [`Screen::line`].
    pub fn document(&self, document: &impl Serialize) -> Result<(), Error> {
        self.line(serde_json::to_string(document).map_err(|error| Error::Output(error.into()))?)
    }

    /// Prints a table. One without rows prints `none` on standard error instead.
    ///
    /// # Errors
    /// As [`Screen::line`].
    pub fn table(&self, table: &Table, none: &str) -> Result<(), Error> {
        if table.is_empty() {
            self.note(none);
            return Ok(());
        }
        self.line(self.rendered(table))
    }

    /// The lines of a table, as [`Screen::table`] prints them.
    pub fn rendered(&self, table: &Table) -> String {
        table.render(self.width, self.colour)
    }

    /// Prints the name and the value of properties, one pair a line.
    ///
    /// # Errors
    /// As [`Screen::line`].
    pub fn properties(&self, properties: &[(&str, String)]) -> Result<(), Error> {
        let longest = properties.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        for (name, value) in properties {
            let value = if value.is_empty() { "–" } else { value };
            self.line(format_args!("{name:longest$}  {value}"))?;
        }
        Ok(())
    }

    /// A text in a style, if there are colours.
    pub fn styled(&self, text: &str, style: Style) -> String {
        style.apply(text, self.colour)
    }

    /// Tells people something beside the result, on standard error.
    pub fn note(&self, text: impl Display) {
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// A progress bar; it is visible only if standard error is a terminal.
    pub fn progress(&self, doing: &'static str, total: Option<u64>) -> Progress {
        Progress::new(doing, total)
    }

    /// Asks before something is destroyed. `touches` says what.
    ///
    /// # Errors
    /// [`Declined`] if the answer is no, or if there is no terminal to ask on and `yes` is false.
    pub async fn confirm(&self, touches: impl Display, yes: bool) -> Result<(), Error> {
        confirm::ask(&touches.to_string(), yes).await
    }
}

/// The columns and lines of the terminal at standard output.
fn size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some((usize::from(size.ws_col), usize::from(size.ws_row))).filter(|(columns, _)| *columns > 0)
}
