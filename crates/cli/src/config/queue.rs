//! What can be set about the queue.

use std::{convert::Infallible, fmt, str::FromStr, time::Duration};

use clap::{Args, builder::BoolishValueParser};

use crate::error::Error;

/// How the queue waits, and what it keeps secret.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Queue")]
pub struct Queue {
    /// Pops that may wait at once; further ones are refused with 503 and a time to try again
    #[arg(long, env = "REVEILLE_QUEUE_MAX_INTENTIONS", default_value = "10000", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    queue_max_intentions: u32,
    /// Key of the queues that are encrypted, as 64 hexadecimal characters; keep it in the variable
    #[arg(long, env = "REVEILLE_QUEUE_ENCRYPTION_KEY", hide_env_values = true, value_name = "KEY")]
    queue_encryption_key: Option<SecretKey>,
    /// Looks for waiting pops at once, at most half of the connections
    #[arg(long, env = "POLL_WORKER_COUNT", default_value = "16", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    poll_worker_count: u32,
    /// Milliseconds between two looks while other processes cannot be heard; otherwise nobody polls
    #[arg(long, env = "POLL_INTERVAL_MS", default_value = "100", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=3_600_000))]
    poll_interval_ms: u32,
    /// Whether pops that a message has woken look before those that just arrive
    #[arg(long, env = "USE_PRIORITY_DISPATCH", default_value = "true", value_name = "BOOL",
          action = clap::ArgAction::Set, value_parser = BoolishValueParser::new())]
    use_priority_dispatch: bool,
    /// Shortest time in milliseconds between two removals of messages that queues no longer want to keep
    #[arg(long, env = "RETENTION_INTERVAL", default_value = "300000", value_name = "N",
          value_parser = clap::value_parser!(u32).range(10..=86_400_000))]
    retention_interval: u32,
    /// Shortest time in milliseconds between two removals of messages that have waited, or lived, longer than their queue wants
    #[arg(long, env = "EVICTION_INTERVAL", default_value = "60000", value_name = "N",
          value_parser = clap::value_parser!(u32).range(10..=86_400_000))]
    eviction_interval: u32,
}

impl Queue {
    /// The options of the queue, or which setting cannot be used.
    pub fn options(&self) -> Result<queue::Options, Error> {
        let key = self.queue_encryption_key.as_ref().map(SecretKey::bytes).transpose();
        let encryption_key =
            key.map_err(|source| Error::Setting { key: "--queue-encryption-key", source: source.into() })?;
        let wake = wake::Options {
            max_intentions: self.queue_max_intentions as usize,
            aggressive_poll_interval: Duration::from_millis(self.poll_interval_ms.into()),
            looks_at_a_time: self.poll_worker_count as usize,
            rung_first: self.use_priority_dispatch,
            ..wake::Options::default()
        };
        Ok(queue::Options { wake, encryption_key, ..queue::Options::default() })
    }

    /// How often house is kept at most.
    pub fn retention(&self) -> queue::RetentionOptions {
        queue::RetentionOptions {
            retention_interval: Duration::from_millis(self.retention_interval.into()),
            eviction_interval: Duration::from_millis(self.eviction_interval.into()),
        }
    }
}

/// A key that cannot be printed by accident. Any text is taken, because the parser quotes what it refuses; it is judged when it is used.
#[derive(Clone)]
struct SecretKey(String);

impl SecretKey {
    fn bytes(&self) -> Result<[u8; 32], &'static str> {
        let digits = self.0.as_bytes();
        let is_key = digits.len() == 64 && digits.iter().all(u8::is_ascii_hexdigit);
        if !is_key {
            return Err("it is not 64 hexadecimal characters; `openssl rand -hex 32` makes such a key");
        }
        let mut key = [0; 32];
        for (byte, pair) in key.iter_mut().zip(self.0.as_bytes().chunks(2)) {
            let digit = |digit: u8| (digit as char).to_digit(16).unwrap_or_default() as u8;
            *byte = digit(pair[0]) << 4 | digit(pair[1]);
        }
        Ok(key)
    }
}

impl FromStr for SecretKey {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.trim().to_owned()))
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key is 64 hexadecimal characters; anything else is refused without being repeated.
    #[test]
    fn a_key_is_hexadecimal_and_never_shown() {
        let key = |text: &str| text.parse::<SecretKey>().expect("any text is taken");
        let digits = "00ff".repeat(16);
        let bytes = key(&format!(" {digits}\n")).bytes().expect("a key");
        assert_eq!((bytes[0], bytes[1], bytes[31]), (0x00, 0xff, 0xff));
        for text in ["", "secret", &digits[1..], &"xy".repeat(32), &"é".repeat(32)] {
            let refused = key(text).bytes().expect_err(text);
            assert!(text.is_empty() || !refused.contains(text));
        }
        assert!(!format!("{:?}", key(&digits)).contains("ff"));
    }
}
