//! That a task has steps that can be claimed: what is told of it.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// How word of a task came here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum EventSource {
    /// Through PostgreSQL: it happened in whatever process.
    #[default]
    Notification,
    /// It happened in this process.
    InProcess,
    /// Nobody had heard of it: the fallback poller found it.
    FallbackPoller,
}

/// A task has steps that can be claimed. It says "look", and never "this is yours": by now others may have claimed them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReadyEvent {
    /// Which task.
    pub task_uuid: Uuid,
    /// Its namespace.
    pub namespace: String,
    /// Its priority.
    pub priority: i16,
    /// How many steps could be claimed when this was told; none: others were faster.
    pub ready_steps: u32,
    /// When the task last changed, in microseconds of the Unix epoch by the database's clock: two events of a task with the same one are the same event.
    #[serde(default)]
    pub updated_at_us: i64,
    /// How word of it came here.
    #[serde(skip)]
    pub source: EventSource,
}
