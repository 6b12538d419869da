//! The messages that are sent: JSON objects of a fixed size that contain the time of sending.

use std::time::{Duration, SystemTime};

use serde::Deserialize;

use crate::{Failure, Result};

/// The size of every message.
pub const BYTES: usize = 256;

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note {
    /// When it was sent, in nanoseconds of the system clock.
    sent: u64,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    note: &'a str,
}

impl Note {
    /// A message that is sent now.
    pub fn now() -> Note {
        Note { sent: nanos(SystemTime::now()) }
    }

    /// The JSON object, [`BYTES`] long. It contains random characters, so that objects differ and hardly compress.
    pub fn json(&self) -> String {
        let mut text = format!(r#"{{"note":"{:020} "#, self.sent);
        while text.len() < BYTES - 2 {
            text.push(fastrand::alphanumeric());
        }
        text.push_str(r#""}"#);
        text
    }

    /// Reads the JSON object, with any white space.
    ///
    /// # Errors
    /// If it is not such an object.
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

    /// A message has the fixed size, and is also read with other white space: a database may change that in JSON.
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
