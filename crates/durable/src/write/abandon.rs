//! Abandons leases of turns and activities.

use std::sync::Arc;
use std::time::Duration;

use reveille_pg::{Schema, Sql};
use reveille_wake::{BatchResult, BatchedWrite, Channel, ScanBounds, WakeUp, WriteBatch};
use sqlx::PgConnection;
use uuid::Uuid;

use super::message::millis;
use super::repeated;
use crate::claim::{ActivityKey, TurnKey};
use crate::token::{ActivityToken, TurnToken};

/// Abandons leases of one kind. The token fences the write, and a second one changes nothing, so outcomes are not
/// recorded.
pub(crate) struct Abandon {
    kind: LeaseKind,
    /// Makes the next claims of this process scan from the start.
    forget_bounds: Box<dyn Fn() + Send + Sync>,
    channel: Channel,
    sql: Sql,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeaseKind {
    Turns,
    Activities,
}

/// A lease to abandon.
#[derive(Debug, Clone)]
pub(crate) struct AbandonedLease {
    instance: String,
    /// Zero for a turn.
    id: i64,
    fence: Uuid,
    delay: Option<Duration>,
    uncounted: bool,
}

impl AbandonedLease {
    /// Due again after `delay`; `None`: at once, in its old order. `uncounted`: as if it had never been fetched.
    pub(crate) fn turn(token: TurnToken, delay: Option<Duration>, uncounted: bool) -> AbandonedLease {
        AbandonedLease { instance: token.instance, id: 0, fence: token.fence, delay, uncounted }
    }

    /// The instance, escaped.
    pub(crate) fn instance(&self) -> &str {
        &self.instance
    }

    /// As [`turn`](Self::turn).
    pub(crate) fn activity(token: ActivityToken, delay: Option<Duration>, uncounted: bool) -> AbandonedLease {
        AbandonedLease { instance: token.instance, id: token.id, fence: token.fence, delay, uncounted }
    }
}

/// The result of abandoning a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AbandonOutcome {
    Released,
    /// The token is not that of the lease.
    Gone,
}

impl Abandon {
    pub(crate) fn turns(schema: &Schema, channel: Channel, bounds: Arc<ScanBounds<TurnKey>>) -> Abandon {
        let sql = schema.sql(reveille_pg::statement!("abandon_instances"));
        Abandon { kind: LeaseKind::Turns, forget_bounds: Box::new(move || bounds.forget()), channel, sql }
    }

    pub(crate) fn activities(schema: &Schema, channel: Channel, bounds: Arc<ScanBounds<ActivityKey>>) -> Abandon {
        let sql = schema.sql(reveille_pg::statement!("abandon_work"));
        Abandon { kind: LeaseKind::Activities, forget_bounds: Box::new(move || bounds.forget()), channel, sql }
    }
}

impl BatchedWrite for Abandon {
    type Write = AbandonedLease;
    type Key = (String, i64);
    type Outcome = AbandonOutcome;
    const RECORDS_OUTCOMES: bool = false;

    fn key(&self, lease: &AbandonedLease) -> (String, i64) {
        (lease.instance.clone(), lease.id)
    }

    fn wake_ups(&self, lease: &AbandonedLease, outcome: Option<&AbandonOutcome>) -> Vec<WakeUp> {
        if outcome == Some(&AbandonOutcome::Gone) {
            return Vec::new();
        }
        let due = self.channel.wake_up().after(lease.delay.unwrap_or_default());
        // Messages that came during the lease are free at once, whatever the delay of the turn's own messages.
        let freed = (self.kind == LeaseKind::Turns && lease.delay.is_some()).then(|| self.channel.wake_up());
        [due].into_iter().chain(freed).collect()
    }

    async fn send(
        &self,
        conn: &mut PgConnection,
        batch: &WriteBatch<'_, AbandonedLease>,
    ) -> reveille_pg::Result<BatchResult<Self::Outcome>> {
        let leases = &batch.writes;
        let fences: Vec<Uuid> = leases.iter().map(|lease| lease.fence).collect();
        let repeated = repeated(fences.iter().copied());
        let mut query =
            batch.query(&self.sql).bind(leases.iter().map(|lease| lease.instance.as_str()).collect::<Vec<_>>());
        if self.kind == LeaseKind::Activities {
            query = query.bind(leases.iter().map(|lease| lease.id).collect::<Vec<_>>());
        }
        let query = query
            .bind(fences)
            .bind(repeated)
            .bind(leases.iter().map(|lease| lease.delay.map(millis)).collect::<Vec<_>>())
            .bind(leases.iter().map(|lease| lease.uncounted).collect::<Vec<_>>());
        batch.result(self, &query.fetch_one(conn).await?)
    }

    fn decode(&self, _: &AbandonedLease, text: &str) -> Option<AbandonOutcome> {
        match text {
            "ok" => Some(AbandonOutcome::Released),
            "gone" => Some(AbandonOutcome::Gone),
            _ => None,
        }
    }

    /// What was abandoned is due at its old time, below the scan bound. Whatever the outcome: an earlier attempt may have
    /// released it.
    fn committed(&self, _: &AbandonedLease, _: &AbandonOutcome) {
        (self.forget_bounds)();
    }
}
