//! Activities to execute.

use duroxide::providers::{ProviderError, WorkItem};
use reveille_pg::{Schema, Sql};
use reveille_wake::{BatchResult, BatchedWrite, Channel, WakeUp, WriteBatch};
use sqlx::PgConnection;

use super::message::json;
use crate::queries::Bound;
use crate::text::escape;

/// An activity to execute, as it is stored; its texts are escaped.
#[derive(Debug, Clone)]
pub(crate) struct ScheduledActivity {
    pub(crate) instance: String,
    pub(crate) execution: i64,
    pub(crate) activity: i64,
    pub(crate) tag_queue: String,
    pub(crate) session: Option<String>,
    pub(crate) item: String,
}

impl ScheduledActivity {
    /// # Errors
    /// If the item is not an activity.
    pub(crate) fn new(operation: &'static str, item: &WorkItem) -> Result<ScheduledActivity, ProviderError> {
        let WorkItem::ActivityExecute { instance, execution_id, id, session_id, tag, .. } = item else {
            let message = "invalid work item for a worker: must be ActivityExecute";
            return Err(ProviderError::permanent(operation, message));
        };
        Ok(ScheduledActivity {
            instance: escape(instance).into_owned(),
            execution: *execution_id as i64,
            activity: *id as i64,
            tag_queue: tag_queue(tag.as_deref()),
            session: session_id.as_deref().map(|session| escape(session).into_owned()),
            item: json(operation, item, instance)?,
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.instance.len() + self.item.len() + self.tag_queue.len()
    }
}

/// The queue in which activities with this tag wait.
pub(crate) fn tag_queue(tag: Option<&str>) -> String {
    tag.map_or_else(String::new, |tag| format!("#{}", escape(tag)))
}

/// Sends activities that are not scheduled by a turn. Each must be sent once, so outcomes are recorded.
pub(crate) struct EnqueueActivities {
    channel: Channel,
    sql: Sql,
}

impl EnqueueActivities {
    pub(crate) fn new(schema: &Schema, channel: Channel) -> EnqueueActivities {
        EnqueueActivities { channel, sql: schema.sql(reveille_pg::statement!("enqueue_work")) }
    }
}

impl BatchedWrite for EnqueueActivities {
    type Write = ScheduledActivity;
    type Key = ();
    type Outcome = ();
    const RECORDS_OUTCOMES: bool = true;

    fn key(&self, _: &ScheduledActivity) {}

    fn bytes(&self, activity: &ScheduledActivity) -> usize {
        activity.bytes()
    }

    fn wake_ups(&self, _: &ScheduledActivity, _: Option<&()>) -> Vec<WakeUp> {
        vec![self.channel.wake_up()]
    }

    async fn send(
        &self,
        conn: &mut PgConnection,
        batch: &WriteBatch<'_, ScheduledActivity>,
    ) -> reveille_pg::Result<BatchResult<Self::Outcome>> {
        let query = ActivityColumns::of(batch.writes.iter().copied()).bind(batch.query(&self.sql));
        batch.result(self, &query.fetch_one(conn).await?)
    }

    fn decode(&self, _: &ScheduledActivity, text: &str) -> Option<()> {
        (text == "ok").then_some(())
    }
}

/// Activities as one array per column.
#[derive(Default)]
pub(crate) struct ActivityColumns<'a> {
    instances: Vec<&'a str>,
    executions: Vec<i64>,
    activities: Vec<i64>,
    tag_queues: Vec<&'a str>,
    sessions: Vec<Option<&'a str>>,
    items: Vec<&'a str>,
}

impl<'a> ActivityColumns<'a> {
    pub(crate) fn of(activities: impl IntoIterator<Item = &'a ScheduledActivity>) -> ActivityColumns<'a> {
        let mut columns = ActivityColumns::default();
        for activity in activities {
            columns.instances.push(&activity.instance);
            columns.executions.push(activity.execution);
            columns.activities.push(activity.activity);
            columns.tag_queues.push(&activity.tag_queue);
            columns.sessions.push(activity.session.as_deref());
            columns.items.push(&activity.item);
        }
        columns
    }

    pub(crate) fn bind(self, query: Bound<'a>) -> Bound<'a> {
        query
            .bind(self.instances)
            .bind(self.executions)
            .bind(self.activities)
            .bind(self.tag_queues)
            .bind(self.sessions)
            .bind(self.items)
    }
}
