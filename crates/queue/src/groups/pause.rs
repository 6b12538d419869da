//! Pauses: a queue, or one of its consumer groups, delivers nothing until it is resumed.
//!
//! A pause is stored, so it applies to all servers and survives restarts. It delivers nothing new: what is leased may
//! still be acked. Waiting pops of a paused source sleep as if it were empty, and cost nothing.

use crate::error::Result;
use crate::name::check;
use crate::queues::Queues;
use crate::storage::partition_ref::released;
use reveille_pg::audit::Entry;

impl Queues {
    /// Pauses a queue for all consumer groups, or resumes it. `false`: there is no such queue. Repeating it changes
    /// nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for an invalid name; otherwise those of the database.
    pub async fn pause_queue(&self, queue: &str, paused: bool) -> Result<bool> {
        check("queue", queue)?;
        let inner = &self.inner;
        let query = || sqlx::query(&inner.sql.pause_queue).bind(queue).bind(paused);
        let entry = Entry::new(if paused { "queue.pause" } else { "queue.resume" }, queue);
        let found = !inner.db.act("pause a queue", entry, query, |rows| !rows.is_empty()).await?.is_empty();
        if found && !paused {
            // Pops wait for the queue, for one of its partitions, its namespace or its task.
            inner.wake.wake_up(&[inner.channel.wake_up()]);
        }
        Ok(found)
    }

    /// Pauses a consumer group of a queue, or resumes it. `false`: the queue has no such group. Repeating it changes
    /// nothing.
    ///
    /// # Errors
    /// As [`pause_queue`](Self::pause_queue).
    pub async fn pause_group(&self, queue: &str, group: &str, paused: bool) -> Result<bool> {
        check("queue", queue)?;
        check("consumerGroup", group)?;
        let inner = &self.inner;
        let query = || sqlx::query(&inner.sql.pause_group).bind(queue).bind(group).bind(paused);
        let entry = Entry::new(if paused { "group.pause" } else { "group.resume" }, format!("{queue}/{group}"));
        let found = !inner.db.act("pause a group", entry, query, |rows| !rows.is_empty()).await?.is_empty();
        if found && !paused {
            inner.wake.wake_up(&[released(&inner.channel, queue, group)]);
        }
        Ok(found)
    }
}
