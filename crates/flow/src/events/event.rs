//! The event of a task with claimable steps.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// How an event reached this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum EventSource {
    /// By a PostgreSQL notification, from any process.
    #[default]
    Notification,
    /// The change was made by this process.
    InProcess,
    /// The fallback poller found the task.
    FallbackPoller,
}

/// A task has claimable steps. It is only a hint: by now other workers may have claimed them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReadyEvent {
    /// The task.
    pub task_uuid: Uuid,
    /// Its namespace.
    pub namespace: String,
    /// Its priority.
    pub priority: i16,
    /// The number of claimable steps when the event was created; 0 if they had been claimed already.
    pub ready_steps: u32,
    /// When the task last changed, in microseconds since the Unix epoch, by the database's clock. Two events of a task
    /// with the same time are the same event.
    #[serde(default)]
    pub updated_at_us: i64,
    /// How it reached this process.
    #[serde(skip)]
    pub source: EventSource,
}
