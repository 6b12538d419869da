//! As much of PostgreSQL's protocol as it takes to know when the server has finished.
//!
//! A reply is a row of messages, each a letter, a length and a body. A statement has been executed when a message says
//! that it completed, was suspended or failed; its transaction has ended, and the client may go on, at the
//! `ReadyForQuery` after that. A `ReadyForQuery` alone is not enough: the driver prepares a statement before it runs
//! it, and gets one for that too.

/// The four bytes after the length of a request for encryption.
const ENCRYPTION: [[u8; 4]; 2] = [80_877_103_u32.to_be_bytes(), 80_877_104_u32.to_be_bytes()];

/// Whether a client begins by asking for encryption, which is answered by a single byte that is no message.
pub(super) fn is_encryption_request(first: &[u8]) -> bool {
    first.len() == 8 && ENCRYPTION.iter().any(|code| first[4..] == *code)
}

/// How a server begins to say which version it is, and how many digits of the major version follow.
const VERSION: &[u8] = b"server_version\0";
const MAJOR_DIGITS: usize = 2;

/// Replaces the major version that the server says it is. `false` if the bytes end within it: then more have to come
/// first.
pub(super) fn pretend_version(bytes: &mut [u8], major: [u8; MAJOR_DIGITS]) -> bool {
    let whole = VERSION.len() + MAJOR_DIGITS;
    if let Some(at) = bytes.windows(whole).position(|part| part.starts_with(VERSION)) {
        bytes[at + VERSION.len()..at + whole].copy_from_slice(&major);
        return true;
    }
    let is_begun = |length: usize| bytes.ends_with(&VERSION[..length.min(VERSION.len())]);
    let lacks_digits = bytes.len() > VERSION.len() && bytes[..bytes.len() - 1].ends_with(VERSION);
    !lacks_digits && !(1..=VERSION.len()).any(is_begun)
}

/// How far a statement is that is watched for, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Progress {
    /// Its reply is not complete.
    Waiting,
    /// A reply is complete, and it was not executed by it: the client must hear that, in order to go on.
    Prepared,
    /// It has been executed, and its transaction has ended.
    Finished,
}

/// Reads what the server sends, in pieces of any size.
#[derive(Debug, Default)]
pub(super) struct Replies {
    /// The letter and length of the message that is being read, as far as they have come.
    header: Vec<u8>,
    /// Bytes of its body that are still to come.
    body: usize,
    /// Bytes to come that belong to no message.
    loose: usize,
    watching: bool,
    executed: bool,
}

impl Replies {
    /// The next byte is an answer about encryption.
    pub(super) fn expect_one_byte(&mut self) {
        self.loose = 1;
    }

    /// Wait for a statement to be executed from here on.
    pub(super) fn watch(&mut self) {
        self.watching = true;
        self.executed = false;
    }

    /// Reads a piece, and says how far the statement is that is watched for.
    pub(super) fn read(&mut self, piece: &[u8]) -> Progress {
        let mut progress = Progress::Waiting;
        for byte in piece {
            if self.loose > 0 {
                self.loose -= 1;
            } else if self.body > 0 {
                self.body -= 1;
            } else {
                self.header.push(*byte);
                if let [letter, length @ ..] = self.header.as_slice()
                    && let Ok(length) = <[u8; 4]>::try_from(length)
                {
                    progress = progress.max(self.begin(*letter));
                    // The length counts itself.
                    self.body = (u32::from_be_bytes(length) as usize).saturating_sub(4);
                    self.header.clear();
                }
            }
        }
        progress
    }

    /// Notes a message.
    fn begin(&mut self, letter: u8) -> Progress {
        match letter {
            // CommandComplete, PortalSuspended, EmptyQueryResponse, ErrorResponse
            b'C' | b's' | b'I' | b'E' => self.executed = true,
            // ReadyForQuery
            b'Z' if self.watching && self.executed => return Progress::Finished,
            b'Z' => return Progress::Prepared,
            _ => {}
        }
        Progress::Waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(letter: u8, body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32 + 4).to_be_bytes();
        [&[letter], length.as_slice(), body].concat()
    }

    /// The version is replaced however the bytes that say it are cut.
    /// Feeds a greeting in two pieces, cut at every position; the rest comes with the next piece.
    #[test]
    fn a_version_is_replaced_in_pieces_of_any_size() {
        let greeting = [message(b'S', b"is_superuser\0on\0"), message(b'S', b"server_version\x0015.14\0")].concat();
        for cut in 0..=greeting.len() {
            let mut passed = Vec::new();
            let mut held = greeting[..cut].to_vec();
            if pretend_version(&mut held, *b"13") {
                passed.append(&mut held);
            }
            held.extend_from_slice(&greeting[cut..]);
            assert!(pretend_version(&mut held, *b"13"), "cut at {cut}");
            passed.append(&mut held);
            let expected = greeting.windows(5).position(|part| part == b"15.14").expect("it is there");
            assert_eq!(&passed[expected..expected + 5], b"13.14", "cut at {cut}");
            assert_eq!(passed.len(), greeting.len());
        }
    }

    /// Preparing a statement is not executing it, and an earlier failure is not this one's end, however the bytes are
    /// cut. Feeds a conversation in pieces of every size; a row holds bytes that look like the end.
    #[test]
    fn the_end_of_execution_is_found_in_pieces_of_any_size() {
        let before = [b"N".to_vec(), message(b'E', b"an earlier failure"), message(b'Z', b"I")].concat();
        let prepared = [message(b'1', b""), message(b't', b"\0\0"), message(b'Z', b"I")].concat();
        let row = message(b'D', &[message(b'C', b""), message(b'Z', b"I")].concat());
        let executed = [message(b'2', b""), row, message(b'C', b"SELECT 1\0")].concat();
        for size in 1..=executed.len() {
            let mut replies = Replies::default();
            let finishes = |replies: &mut Replies, bytes: &[u8]| {
                bytes.chunks(size).any(|piece| replies.read(piece) == Progress::Finished)
            };
            replies.expect_one_byte();
            assert!(!finishes(&mut replies, &before), "watched only later");
            replies.watch();
            assert!(!finishes(&mut replies, &prepared), "prepared only");
            assert!(!finishes(&mut replies, &executed), "executed, and its transaction has not ended");
            assert!(finishes(&mut replies, &message(b'Z', b"I")), "ended");
        }
    }
}
