//! Server-sent events.

use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::Error;

/// The largest event: a transition has a few hundred bytes.
const EVENT_MAX: usize = 16 * 1024 * 1024;

/// An event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The id from which a stream can be continued.
    pub id: Option<String>,
    /// What kind of event; `message` if the server names none.
    pub kind: String,
    /// Its data: JSON.
    pub data: String,
}

/// A stream of events.
pub struct Events {
    body: Incoming,
    parser: Parser,
    server: String,
}

impl Events {
    pub(super) fn new(body: Incoming, server: String) -> Events {
        Events { body, parser: Parser::default(), server }
    }

    /// The next event; `None` if the server has ended the stream.
    ///
    /// # Errors
    /// [`Error::Cut`] if the connection ended: continue with the id of the last event.
    ///
    /// # Cancel safety
    /// No event is lost if the future is dropped.
    pub async fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            if let Some(event) = self.parser.event() {
                return Ok(Some(event));
            }
            if self.parser.rest.len() > EVENT_MAX {
                return Err(Error::TooLarge { limit_mb: EVENT_MAX / 1024 / 1024 });
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Some(bytes) = frame.data_ref() {
                        self.parser.rest.extend_from_slice(bytes);
                    }
                }
                Some(Err(source)) => {
                    return Err(Error::Cut { server: self.server.clone(), source: source.into() });
                }
            }
        }
    }
}

/// What has arrived and was not read yet.
#[derive(Default)]
struct Parser {
    rest: Vec<u8>,
    /// How much of `rest` has been searched for the end of an event.
    searched: usize,
}

impl Parser {
    /// The first complete event with data. Comments, which keep a connection alive, are skipped.
    fn event(&mut self) -> Option<Event> {
        while let Some(end) = self.blank_line() {
            let block: Vec<u8> = self.rest.drain(..end).collect();
            self.searched = 0;
            let event = read(&String::from_utf8_lossy(&block));
            if event.is_some() {
                return event;
            }
        }
        None
    }

    /// The position after the first empty line.
    fn blank_line(&mut self) -> Option<usize> {
        let mut line_start = self.searched;
        while let Some(length) = self.rest[line_start..].iter().position(|byte| *byte == b'\n') {
            let line = &self.rest[line_start..line_start + length];
            line_start += length + 1;
            if line.is_empty() || line == b"\r" {
                return Some(line_start);
            }
            self.searched = line_start;
        }
        None
    }
}

fn read(block: &str) -> Option<Event> {
    let mut event = Event { kind: "message".to_owned(), ..Event::default() };
    let mut data: Option<String> = None;
    for line in block.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => event.id = Some(value.to_owned()),
            "event" => event.kind = value.to_owned(),
            "data" => match &mut data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => data = Some(value.to_owned()),
            },
            _ => {}
        }
    }
    event.data = data?;
    Some(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events must be found wherever the network cuts the text: comments are skipped, lines of data are joined.
    /// The same text in pieces of every size.
    #[test]
    fn events_are_found_in_pieces_of_every_size() {
        let text = ": alive\n\nid: 1-2\nevent: transition\ndata: {\"a\":\ndata: 7}\n\n:\r\n\r\ndata:é\r\n\r\nevent: end\ndata: {}\n\nid: 9\n";
        let event = |id: Option<&str>, kind: &str, data: &str| Event {
            id: id.map(str::to_owned),
            kind: kind.to_owned(),
            data: data.to_owned(),
        };
        let expected =
            [event(Some("1-2"), "transition", "{\"a\":\n7}"), event(None, "message", "é"), event(None, "end", "{}")];
        for size in 1..=text.len() {
            let (mut parser, mut found) = (Parser::default(), Vec::new());
            for piece in text.as_bytes().chunks(size) {
                parser.rest.extend_from_slice(piece);
                found.extend(std::iter::from_fn(|| parser.event()));
            }
            assert_eq!(found, expected, "pieces of {size}");
        }
    }
}
