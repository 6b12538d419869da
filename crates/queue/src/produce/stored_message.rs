//! A message as it is stored.

use uuid::Uuid;

/// A message as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct StoredMessage {
    pub(crate) id: Uuid,
    pub(crate) transaction_id: String,
    pub(crate) hash: i64,
    pub(crate) payload: Vec<u8>,
    pub(crate) trace_id: Option<String>,
    pub(crate) producer: Option<String>,
}

impl StoredMessage {
    /// About how many bytes it takes in a segment.
    pub(crate) fn bytes(&self) -> usize {
        self.payload.len() + self.transaction_id.len() + 64
    }
}
