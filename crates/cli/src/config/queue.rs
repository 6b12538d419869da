//! What can be set about the queue.

use std::{path::PathBuf, time::Duration};

use clap::{Args, builder::BoolishValueParser};

use super::keys::{SecretKeys, keys_of};
use crate::error::Error;

/// How the queue waits, and what it keeps secret.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Queue")]
pub struct Queue {
    /// Pops that may wait at once; further ones are refused with 503 and a time to try again
    #[arg(long, env = "REVEILLE_QUEUE_MAX_WAITERS", default_value = "10000", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    queue_max_waiters: u32,
    /// Keys of encrypted queues, separated by commas, each of 64 hexadecimal characters: the first encrypts, all decrypt; keep them in the variable
    #[arg(long, env = "REVEILLE_QUEUE_ENCRYPTION_KEY", hide_env_values = true, value_name = "KEYS")]
    queue_encryption_key: Option<SecretKeys>,
    /// File with the keys of encrypted queues, one per line, instead of the variable
    #[arg(long, env = "REVEILLE_QUEUE_ENCRYPTION_KEY_FILE", value_name = "FILE")]
    queue_encryption_key_file: Option<PathBuf>,
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
        let encryption_keys = self.keys()?;
        let wake = wake::Options {
            max_waiters: self.queue_max_waiters as usize,
            aggressive_poll_interval: Duration::from_millis(self.poll_interval_ms.into()),
            concurrent_polls: self.poll_worker_count as usize,
            wake_ups_first: self.use_priority_dispatch,
            ..wake::Options::default()
        };
        Ok(queue::Options { wake, encryption_keys, ..queue::Options::default() })
    }

    fn keys(&self) -> Result<Vec<[u8; 32]>, Error> {
        let (key, keys) = match (&self.queue_encryption_key, &self.queue_encryption_key_file) {
            (Some(_), Some(_)) => {
                let source = "it is given beside --queue-encryption-key: give one of them".into();
                return Err(Error::Setting { key: "--queue-encryption-key-file", source });
            }
            (Some(keys), None) => ("--queue-encryption-key", keys.bytes()),
            (None, Some(file)) => ("--queue-encryption-key-file", keys_of(file)),
            (None, None) => return Ok(Vec::new()),
        };
        keys.map_err(|source| Error::Setting { key, source: source.into() })
    }

    /// How often house is kept at most.
    pub fn retention(&self) -> queue::RetentionOptions {
        queue::RetentionOptions {
            retention_interval: Duration::from_millis(self.retention_interval.into()),
            eviction_interval: Duration::from_millis(self.eviction_interval.into()),
        }
    }
}
