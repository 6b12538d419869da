//! Failures to encrypt or decrypt: counted, logged at most once a minute per reason, and reported to the health check
//! for a while.
//!
//! No text here holds a key. The id of a key is a hash of it, and may be shown.

use std::time::Duration;

use parking_lot::Mutex;
use reveille_pg::LogLimit;
use tokio::time::Instant;

use super::Unopened;
use crate::admin::metrics as meter;

/// How often each reason is logged.
const LOG_EVERY: Duration = Duration::from_secs(60);
/// How long after the last failure the process is degraded: longer than the pause of consumers and probers.
const LASTS: Duration = Duration::from_secs(300);

/// Recent failures.
pub(crate) struct EncryptionFailures {
    last: Mutex<Option<(Instant, String)>>,
    no_key: LogLimit,
    missing: LogLimit,
    damaged: LogLimit,
}

impl Default for EncryptionFailures {
    fn default() -> Self {
        let limit = || LogLimit::new(LOG_EVERY);
        EncryptionFailures { last: Mutex::default(), no_key: limit(), missing: limit(), damaged: limit() }
    }
}

impl EncryptionFailures {
    /// A message could not be encrypted: this process has no key.
    pub(super) fn no_key(&self, queue: &str) {
        meter::undecryptable("no_key");
        self.note(
            &self.no_key,
            queue,
            "messages cannot be stored: the queue is encrypted and there is no key".to_owned(),
        );
    }

    /// A message could not be decrypted.
    pub(crate) fn unopened(&self, queue: &str, why: Unopened) {
        let (reason, limit, text) = match why {
            Unopened::MissingKey(Some(key)) => {
                let text = format!("messages cannot be decrypted: key {key} is not among the configured keys");
                ("missing_key", &self.missing, text)
            }
            Unopened::MissingKey(None) => {
                let text = "messages cannot be decrypted: none of the configured keys opens them".to_owned();
                ("missing_key", &self.missing, text)
            }
            Unopened::Damaged => {
                let text = "messages were changed or moved in the database; they are made dead letters".to_owned();
                ("damaged", &self.damaged, text)
            }
        };
        meter::undecryptable(reason);
        self.note(limit, queue, text);
    }

    /// The failure of the last minutes. `None`: there was none.
    pub(crate) fn current(&self) -> Option<String> {
        let last = self.last.lock();
        last.as_ref().filter(|(at, _)| at.elapsed() < LASTS).map(|(_, text)| text.clone())
    }

    fn note(&self, limit: &LogLimit, queue: &str, text: String) {
        if let Some(left_out) = limit.permit() {
            tracing::warn!(queue, left_out, "{text}");
        }
        let text = format!("queue {queue:?}: {text}");
        *self.last.lock() = Some((Instant::now(), text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::encryption::KeyId;

    /// A failure is reported for a while; its text has the queue and the id of the key. Time is paused.
    #[tokio::test(start_paused = true)]
    async fn a_failure_is_known_for_a_while() {
        let failures = EncryptionFailures::default();
        assert_eq!(failures.current(), None);
        let key = KeyId::of(&[1; 32]);
        failures.unopened("orders", Unopened::MissingKey(Some(key)));
        let text = failures.current().expect("a failure");
        assert!(text.contains("\"orders\"") && text.contains(&key.to_string()), "{text}");
        tokio::time::advance(LASTS).await;
        assert_eq!(failures.current(), None);
    }
}
