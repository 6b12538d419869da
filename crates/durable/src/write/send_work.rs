//! Activities to execute, given to workers by other means than a turn.

use pg::{Schema, Sql};
use sqlx::PgConnection;
use wake::{BatchResult, BatchedWrite, Channel, WakeUp, WriteBatch};

use crate::message::Work;

/// Sends activities, each once, so outcomes are kept.
pub(crate) struct SendWork {
    channel: Channel,
    sql: Sql,
}

impl SendWork {
    pub(crate) fn new(schema: &Schema, channel: Channel) -> SendWork {
        SendWork { channel, sql: schema.sql(pg::statement!("enqueue_work")) }
    }
}

impl BatchedWrite for SendWork {
    type Write = Work;
    type Key = ();
    type Outcome = ();
    const RECORDS_OUTCOMES: bool = true;

    fn key(&self, _: &Work) {}

    fn bytes(&self, work: &Work) -> usize {
        work.bytes()
    }

    fn wake_ups(&self, _: &Work, _: Option<&()>) -> Vec<WakeUp> {
        vec![self.channel.wake_up()]
    }

    async fn send(
        &self,
        conn: &mut PgConnection,
        batch: &WriteBatch<'_, Work>,
    ) -> pg::Result<BatchResult<Self::Outcome>> {
        let columns = WorkColumns::of(batch.writes.iter().copied());
        let query = batch
            .query(&self.sql)
            .bind(columns.instances)
            .bind(columns.executions)
            .bind(columns.activities)
            .bind(columns.lanes)
            .bind(columns.sessions)
            .bind(columns.items);
        batch.result(self, &query.fetch_one(conn).await?)
    }

    fn decode(&self, _: &Work, _: &str) -> Option<()> {
        Some(())
    }
}

/// Activities as the arrays a statement takes.
#[derive(Default)]
pub(crate) struct WorkColumns<'a> {
    pub(crate) instances: Vec<&'a str>,
    pub(crate) executions: Vec<i64>,
    pub(crate) activities: Vec<i64>,
    pub(crate) lanes: Vec<&'a str>,
    pub(crate) sessions: Vec<Option<&'a str>>,
    pub(crate) items: Vec<&'a str>,
}

impl<'a> WorkColumns<'a> {
    pub(crate) fn of(work: impl IntoIterator<Item = &'a Work>) -> WorkColumns<'a> {
        let mut columns = WorkColumns::default();
        for work in work {
            columns.instances.push(&work.instance);
            columns.executions.push(work.execution);
            columns.activities.push(work.activity);
            columns.lanes.push(&work.lane);
            columns.sessions.push(work.session.as_deref());
            columns.items.push(&work.item);
        }
        columns
    }
}
