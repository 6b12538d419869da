//! What is sent: when it was sent, in a JSON object of a fixed size.

use std::time::{Duration, SystemTime};

use serde::Deserialize;

use crate::{Failure, Result};

/// The size of every message.
pub const BYTES: usize = 256;

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note {
    /// When it was sent, in nanoseconds of the wall's clock.
    sent: u64,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    note: &'a str,
}

impl Note {
    /// One that is being sent.
    pub fn now() -> Note {
        Note { sent: nanos(SystemTime::now()) }
    }

    /// The object, [`BYTES`] long. None is equal to another, nor does it compress well.
    pub fn json(&self) -> String {
        let mut text = format!(r#"{{"note":"{:020} "#, self.sent);
        while text.len() < BYTES - 2 {
            text.push(fastrand::alphanumeric());
        }
        text.push_str(r#""}"#);
        text
    }

    /// Reads the object, however it is spaced.
    ///
    /// # Errors
    /// It is something else.
    pub fn read(json: &str) -> Result<Note> {
        let body: Body<'_> = serde_json::from_str(json)?;
        let (sent, _) = body.note.split_once(' ').ok_or_else(|| Failure::from("not a note"))?;
        Ok(Note { sent: sent.parse()? })
    }

    /// How long ago it was sent.
    pub fn age(&self) -> Duration {
        Duration::from_nanos(nanos(SystemTime::now()).saturating_sub(self.sent))
    }
}

fn nanos(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message has its size, and comes back from a database that spaces JSON in its own way.
    #[test]
    fn a_note_is_read_as_it_was_written() {
        let note = Note::now();
        let json = note.json();
        assert_eq!(json.len(), BYTES);
        assert_eq!(Note::read(&json).unwrap(), note);
        assert_eq!(Note::read(&json.replace(':', ": ")).unwrap(), note);
        assert!(Note::read("{}").is_err());
    }
}
