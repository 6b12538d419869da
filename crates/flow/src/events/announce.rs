//! Announcements: notifications for outside listeners.
//!
//! | channel | when | payload |
//! |---|---|---|
//! | `task_ready`, `task_ready.<namespace>` | steps of a task became ready | `task_uuid, namespace, priority, ready_steps, triggered_by, updated_at_us` |
//! | `step_ready.<namespace>` | the same | `task_uuid, namespace, priority, ready_steps, step_names` |
//! | `task_state_change`, `task_state_change.<namespace>` | a task has ended | `task_uuid, namespace, task_state, action_needed, triggered_by` |
//! | `namespace_created` | a namespace with announcements was created | see `functions/open_namespace.sql` |
//!
//! Reveille itself does not depend on them. They are sent after the commit, in batches, and are lost if the process
//! crashes before.

use serde_json::json;
use sha2::{Digest, Sha256};
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::event::{EventSource, TaskReadyEvent};
use crate::task::state::TaskState;
use crate::task::stored::{task_state, unknown};

/// The longest channel name that NOTIFY accepts.
const CHANNEL_MAX: usize = 63;
/// Bytes of the hash in a shortened name.
const HASH_BYTES: usize = 8;
/// The most bytes of step names in a payload, as JSON: a payload must be shorter than 8 000 bytes, with all its fields.
const NAMES_MAX: usize = 5_000;
/// The most bytes of the namespace in a payload, for the same reason.
const NAMESPACE_MAX: usize = 2_000;

/// Steps became ready.
pub(crate) const TASK_READY: &str = "task_ready";
/// The same, with their names.
const STEP_READY: &str = "step_ready";
/// A task has ended.
const TASK_STATE_CHANGE: &str = "task_state_change";
/// A namespace was created.
pub(crate) const NAMESPACE_CREATED: &str = "namespace_created";

/// The default schema, whose name is not part of the channel names.
pub(crate) const DEFAULT_SCHEMA: &str = "reveille";

/// The name of a channel for outside listeners, of all namespaces or of one. In any schema but the default one it
/// begins with the schema. A name that is too long for PostgreSQL is cut, and ends with the beginning of its SHA-256.
pub fn outside_channel(schema: &str, kind: &str, namespace: Option<&str>) -> String {
    let prefix = if schema == DEFAULT_SCHEMA { String::new() } else { format!("{schema}_") };
    let name = format!("{prefix}{kind}{}", namespace.map(|namespace| format!(".{namespace}")).unwrap_or_default());
    if name.len() <= CHANNEL_MAX {
        return name;
    }
    let hash: String = Sha256::digest(&name)[..HASH_BYTES].iter().map(|byte| format!("{byte:02x}")).collect();
    let room = CHANNEL_MAX - hash.len() - 1;
    let cut = (0..=room).rev().find(|&at| name.is_char_boundary(at)).unwrap_or(0);
    format!("{}_{hash}", &name[..cut])
}

/// The state of a task, as it is announced.
pub(crate) struct TaskSnapshot {
    pub(crate) task: Uuid,
    pub(crate) namespace: String,
    pub(crate) priority: i16,
    /// The state in which it ended.
    pub(crate) ended: Option<TaskState>,
    pub(crate) ready: u32,
    pub(crate) names: Vec<String>,
    pub(crate) updated_at_us: i64,
}

impl TaskSnapshot {
    pub(crate) fn of(row: &PgRow) -> sqlx::Result<TaskSnapshot> {
        let state: String = row.try_get("state")?;
        Ok(TaskSnapshot {
            task: row.try_get("id")?,
            namespace: row.try_get("namespace")?,
            priority: row.try_get("priority")?,
            ended: task_state(&state).ok_or_else(|| unknown("task state", &state))?,
            ready: row.try_get::<i64, _>("ready")?.max(0) as u32,
            names: row.try_get::<Option<_>, _>("names")?.unwrap_or_default(),
            updated_at_us: row.try_get("updated_at_us")?,
        })
    }

    pub(crate) fn event(&self, source: EventSource) -> TaskReadyEvent {
        TaskReadyEvent {
            task_uuid: self.task,
            namespace: self.namespace.clone(),
            priority: self.priority,
            ready_steps: self.ready,
            updated_at_us: self.updated_at_us,
            source,
        }
    }

    /// Its announcements, as channels and payloads. `cause`: why steps may have become ready; `None`: none have.
    pub(crate) fn announcements(&self, schema: &str, cause: Option<&str>) -> Vec<(String, String)> {
        let channel = |kind, namespace| outside_channel(schema, kind, namespace);
        let own = Some(self.namespace.as_str());
        let namespace = cut(&self.namespace, NAMESPACE_MAX);
        let mut all = Vec::new();
        if let (Some(cause), None) = (cause, self.ended) {
            let mut payload = json!({
                "task_uuid": self.task, "namespace": namespace, "priority": self.priority, "ready_steps": self.ready,
                "triggered_by": cause, "updated_at_us": self.updated_at_us,
            });
            all.push((channel(TASK_READY, own), payload.to_string()));
            all.push((channel(TASK_READY, None), payload.to_string()));
            if self.ready > 0 {
                payload["step_names"] = json!(self.names_that_fit());
                all.push((channel(STEP_READY, own), payload.to_string()));
            }
        }
        if let Some(ended) = self.ended {
            let action = match ended {
                TaskState::Complete => "finalization",
                TaskState::Error => "error_handling",
                _ => "cleanup",
            };
            let payload = json!({
                "task_uuid": self.task, "namespace": namespace, "priority": self.priority, "task_state": ended,
                "triggered_by": "task_transition", "action_needed": action,
            });
            all.push((channel(TASK_STATE_CHANGE, own), payload.to_string()));
            all.push((channel(TASK_STATE_CHANGE, None), payload.to_string()));
        }
        all
    }

    fn names_that_fit(&self) -> Vec<&str> {
        let mut room = NAMES_MAX;
        let fits = |name: &&String| {
            let bytes = json!(name).to_string().len() + 1;
            room.checked_sub(bytes).inspect(|left| room = *left).is_some()
        };
        self.names.iter().take_while(fits).map(String::as_str).collect()
    }
}

/// The beginning of a text with at most this many bytes in JSON.
fn cut(text: &str, bytes: usize) -> &str {
    // A byte has at most six in JSON.
    let room = if json!(text).to_string().len() <= bytes { text.len() } else { bytes / 6 };
    let end = (0..=room).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Channel names are those that listeners expect, contain any other schema, and are short enough; names that are
    /// cut stay different.
    #[test]
    fn channels_have_names_that_fit() {
        assert_eq!(outside_channel("reveille", TASK_READY, Some("shop")), "task_ready.shop");
        assert_eq!(outside_channel("reveille", NAMESPACE_CREATED, None), "namespace_created");
        assert_eq!(outside_channel("other", TASK_READY, Some("shop")), "other_task_ready.shop");
        let long = |last: &str| outside_channel("reveille", TASK_READY, Some(&("ä".repeat(50) + last)));
        assert!(long("a").len() <= 63 && long("a") != long("b"), "{}", long("a"));
    }

    /// The payloads fit into a notification, however long the names are.
    #[test]
    fn payloads_fit_into_a_notification() {
        let snapshot = TaskSnapshot {
            task: Uuid::nil(),
            namespace: "\u{1}".repeat(1_000),
            priority: -1,
            ended: None,
            ready: 1_000,
            names: (0..1_000).map(|at| format!("{at}{}", "\u{1}".repeat(200))).collect(),
            updated_at_us: 1,
        };
        let sent = snapshot.announcements("reveille", Some("task_start"));
        assert_eq!(sent.len(), 3);
        assert!(sent.iter().all(|(channel, payload)| channel.len() <= 63 && payload.len() < 8_000));
        let ended = TaskSnapshot { ended: Some(TaskState::Error), ..snapshot };
        let sent = ended.announcements("reveille", Some("task_start"));
        assert!(sent.len() == 2 && sent[0].1.contains("error_handling"), "{sent:?}");
    }
}
