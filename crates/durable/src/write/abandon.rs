//! Turns and activities that are given up.

use std::sync::Arc;
use std::time::Duration;

use pg::{Schema, Sql};
use sqlx::PgConnection;
use uuid::Uuid;
use wake::{BatchResult, BatchedWrite, Channel, ScanBounds, WakeUp, WriteBatch};

use super::{Fenced, repeated};
use crate::message::millis;
use crate::token::{TurnToken, WorkToken};
use crate::turn::TurnKey;
use crate::work::WorkKey;

/// Gives up leases of one kind. The token fences it, and being given up twice changes nothing, so outcomes are not kept.
pub(crate) struct Abandon {
    kind: Kind,
    /// Tells the claims of this process that something old is free again.
    forget: Box<dyn Fn() + Send + Sync>,
    channel: Channel,
    sql: Sql,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Turns,
    Work,
}

/// A lease that is given up.
#[derive(Debug, Clone)]
pub(crate) struct GivenUp {
    instance: String,
    /// Zero for a turn.
    id: i64,
    fence: Uuid,
    delay: Option<Duration>,
    uncounted: bool,
}

impl GivenUp {
    /// Visible again after `delay`; `None`: as before, in its old place. `uncounted`: as if it had never been fetched.
    pub(crate) fn turn(token: TurnToken, delay: Option<Duration>, uncounted: bool) -> GivenUp {
        GivenUp { instance: token.instance, id: 0, fence: token.fence, delay, uncounted }
    }

    /// As [`turn`](Self::turn).
    pub(crate) fn work(token: WorkToken, delay: Option<Duration>, uncounted: bool) -> GivenUp {
        GivenUp { instance: token.instance, id: token.id, fence: token.fence, delay, uncounted }
    }
}

impl Abandon {
    pub(crate) fn turns(schema: &Schema, channel: Channel, bounds: Arc<ScanBounds<TurnKey>>) -> Abandon {
        let sql = schema.sql(pg::statement!("abandon_instances"));
        Abandon { kind: Kind::Turns, forget: Box::new(move || bounds.forget()), channel, sql }
    }

    pub(crate) fn work(schema: &Schema, channel: Channel, bounds: Arc<ScanBounds<WorkKey>>) -> Abandon {
        let sql = schema.sql(pg::statement!("abandon_work"));
        Abandon { kind: Kind::Work, forget: Box::new(move || bounds.forget()), channel, sql }
    }
}

impl BatchedWrite for Abandon {
    type Write = GivenUp;
    type Key = (String, i64);
    type Outcome = Fenced;
    const RECORDS_OUTCOMES: bool = false;

    fn key(&self, given_up: &GivenUp) -> (String, i64) {
        (given_up.instance.clone(), given_up.id)
    }

    fn wake_ups(&self, given_up: &GivenUp, outcome: Option<&Fenced>) -> Vec<WakeUp> {
        if outcome.is_some() {
            // Before the ring: whoever it wakes reads from the old place on. However it ended: an attempt before may have done it.
            (self.forget)();
        }
        if outcome.is_some_and(|outcome| *outcome != Fenced::Done) {
            return Vec::new();
        }
        let due = self.channel.wake_up().after(given_up.delay.unwrap_or_default());
        // Messages that came while an instance was leased are free at once, whatever the delay of the turn's own.
        let freed = (self.kind == Kind::Turns && given_up.delay.is_some()).then(|| self.channel.wake_up());
        [due].into_iter().chain(freed).collect()
    }

    async fn send(
        &self,
        conn: &mut PgConnection,
        batch: &WriteBatch<'_, GivenUp>,
    ) -> pg::Result<BatchResult<Self::Outcome>> {
        let leases = &batch.writes;
        let fences: Vec<Uuid> = leases.iter().map(|lease| lease.fence).collect();
        let again = repeated(fences.iter().copied());
        let mut query =
            batch.query(&self.sql).bind(leases.iter().map(|lease| lease.instance.as_str()).collect::<Vec<_>>());
        if self.kind == Kind::Work {
            query = query.bind(leases.iter().map(|lease| lease.id).collect::<Vec<_>>());
        }
        let query = query
            .bind(fences)
            .bind(again)
            .bind(leases.iter().map(|lease| lease.delay.map(millis)).collect::<Vec<_>>())
            .bind(leases.iter().map(|lease| lease.uncounted).collect::<Vec<_>>());
        batch.result(self, &query.fetch_one(conn).await?)
    }

    fn decode(&self, _: &GivenUp, text: &str) -> Option<Fenced> {
        Fenced::decode(text)
    }
}
