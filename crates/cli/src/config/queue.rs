//! Settings of the queue.

use std::{path::PathBuf, time::Duration};

use clap::{Args, builder::BoolishValueParser};

use super::keys::{SecretKeys, keys_of};
use crate::error::Error;

/// Waiting, encryption and retention.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Queue")]
pub struct Queue {
    /// Maximum number of waiting pops; further ones are rejected with 503 and Retry-After
    #[arg(long, env = "REVEILLE_QUEUE_MAX_WAITERS", default_value = "10000", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    queue_max_waiters: u32,
    /// Keys of encrypted queues, separated by commas, 64 hexadecimal characters each: the first encrypts, all decrypt;
    /// prefer the variable
    #[arg(long, env = "REVEILLE_QUEUE_ENCRYPTION_KEY", hide_env_values = true, value_name = "KEYS")]
    queue_encryption_key: Option<SecretKeys>,
    /// File with the keys of encrypted queues, one per line, instead of the variable
    #[arg(long, env = "REVEILLE_QUEUE_ENCRYPTION_KEY_FILE", value_name = "FILE")]
    queue_encryption_key_file: Option<PathBuf>,
    /// Concurrent polls for waiting pops; at most half of the connections are used
    #[arg(long, env = "POLL_WORKER_COUNT", default_value = "16", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    poll_worker_count: u32,
    /// Poll interval in milliseconds while notifications are not received; otherwise nothing polls
    #[arg(long, env = "POLL_INTERVAL_MS", default_value = "100", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=3_600_000))]
    poll_interval_ms: u32,
    /// Whether pops woken by a message are served before newly arrived ones
    #[arg(long, env = "USE_PRIORITY_DISPATCH", default_value = "true", value_name = "BOOL",
          action = clap::ArgAction::Set, value_parser = BoolishValueParser::new())]
    use_priority_dispatch: bool,
    /// Minimum time in milliseconds between two removals of messages past their queue's retention
    #[arg(long, env = "RETENTION_INTERVAL", default_value = "300000", value_name = "N",
          value_parser = clap::value_parser!(u32).range(10..=86_400_000))]
    retention_interval: u32,
    /// Minimum time in milliseconds between two removals of messages past their queue's maximum wait time or time to
    /// live
    #[arg(long, env = "EVICTION_INTERVAL", default_value = "60000", value_name = "N",
          value_parser = clap::value_parser!(u32).range(10..=86_400_000))]
    eviction_interval: u32,
}

impl Queue {
    /// The options of the queue.
    ///
    /// # Errors
    /// The setting that is not valid.
    pub fn options(&self) -> Result<reveille_queue::Options, Error> {
        let encryption_keys = self.keys()?;
        let wake = reveille_wake::Options {
            max_waiters: self.queue_max_waiters as usize,
            aggressive_poll_interval: Duration::from_millis(self.poll_interval_ms.into()),
            concurrent_polls: self.poll_worker_count as usize,
            wake_ups_first: self.use_priority_dispatch,
            ..reveille_wake::Options::default()
        };
        Ok(reveille_queue::Options::default().wake(wake).encryption_keys(encryption_keys))
    }

    fn keys(&self) -> Result<Vec<[u8; 32]>, Error> {
        let (key, keys) = match (&self.queue_encryption_key, &self.queue_encryption_key_file) {
            (Some(_), Some(_)) => {
                let source = "cannot be combined with --queue-encryption-key".into();
                return Err(Error::Setting { key: "--queue-encryption-key-file", source });
            }
            (Some(keys), None) => ("--queue-encryption-key", keys.bytes()),
            (None, Some(file)) => ("--queue-encryption-key-file", keys_of(file)),
            (None, None) => return Ok(Vec::new()),
        };
        keys.map_err(|source| Error::Setting { key, source: source.into() })
    }

    /// How often retention and eviction run at most.
    pub fn retention(&self) -> reveille_queue::RetentionOptions {
        reveille_queue::RetentionOptions::default()
            .retention_interval(Duration::from_millis(self.retention_interval.into()))
            .eviction_interval(Duration::from_millis(self.eviction_interval.into()))
    }
}
