//! Claiming activities.
//!
//! Waiters are equal if they lease for the same time and take the same tags. They differ in whose sessions they may take, so the claim takes one
//! row of arguments per waiter: what belongs to no session goes to any of them, a session's activities to its owner.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{SessionFetchConfig, TagFilter, WorkItem};
use pg::{Schema, Sql};
use sqlx::{PgConnection, Row};
use tokio::time::Instant;
use uuid::Uuid;
use wake::{Channel, Claim, PollRequest, PollResult, ScanBounds, Topic};

use crate::item;
use crate::lease::Leases;
use crate::message::{lane, millis};
use crate::session::Sessions;
use crate::text::{restored, stored};
use crate::token::WorkToken;
use crate::turn::polled;

/// What makes waiters equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct WorkKey {
    pub(crate) lease: Duration,
    /// The lanes taken, in order; `None`: all.
    pub(crate) lanes: Option<Vec<String>>,
}

impl WorkKey {
    /// `None` for a filter that takes nothing.
    pub(crate) fn new(lease: Duration, tags: &TagFilter) -> Option<WorkKey> {
        let mut lanes: Vec<String> = match tags {
            TagFilter::None => return None,
            TagFilter::Any => return Some(WorkKey { lease, lanes: None }),
            TagFilter::DefaultOnly => vec![lane(None)],
            TagFilter::Tags(tags) => tags.iter().map(|tag| lane(Some(tag))).collect(),
            TagFilter::DefaultAnd(tags) => tags.iter().map(|tag| lane(Some(tag))).chain([lane(None)]).collect(),
        };
        lanes.sort_unstable();
        Some(WorkKey { lease, lanes: Some(lanes) })
    }
}

/// In what waiters differ: whose sessions, and for how long one is taken. `None`: no sessions.
pub(crate) type Sessionful = Option<(String, Duration)>;

pub(crate) fn sessionful(session: Option<&SessionFetchConfig>) -> Sessionful {
    session.map(|session| (stored(&session.owner_id).into_owned(), session.lock_timeout))
}

/// A leased activity.
#[derive(Debug)]
pub(crate) struct Activity {
    /// `None`: what is stored is no work item.
    pub(crate) item: Option<WorkItem>,
    pub(crate) token: WorkToken,
    pub(crate) attempt: u32,
}

/// How activities are claimed.
pub(crate) struct WorkClaim {
    pub(crate) channel: Channel,
    pub(crate) bounds: Arc<ScanBounds<WorkKey>>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) sessions: Arc<Sessions>,
    claim: Sql,
    give_back: Sql,
    sweep: Sql,
}

impl WorkClaim {
    pub(crate) fn new(schema: &Schema, channel: Channel, leases: Arc<Leases>, sessions: Arc<Sessions>) -> WorkClaim {
        WorkClaim {
            channel,
            bounds: Arc::new(ScanBounds::new()),
            leases,
            sessions,
            claim: schema.sql(pg::statement!("claim_work")),
            give_back: schema.sql(pg::statement!("give_back_work")),
            sweep: schema.sql(pg::statement!("sweep_work")),
        }
    }
}

impl Claim for WorkClaim {
    type Key = WorkKey;
    type Args = Sessionful;
    type Item = Activity;

    fn topics(&self, _: &WorkKey) -> Vec<Topic> {
        vec![self.channel.topic()]
    }

    fn visibility_key(&self, args: &Sessionful) -> Option<Box<str>> {
        args.as_ref().map(|(owner, _)| owner.as_str().into())
    }

    async fn poll(
        &self,
        conn: &mut PgConnection,
        poll: &PollRequest<WorkKey, Sessionful>,
    ) -> pg::Result<PollResult<Activity>> {
        let key = &poll.key;
        let waiters = &poll.waiters;
        let owners: Vec<Option<&str>> =
            waiters.iter().map(|waiter| waiter.args.as_ref().as_ref().map(|(owner, _)| owner.as_str())).collect();
        let session_ms: Vec<i64> =
            waiters.iter().map(|waiter| waiter.args.as_ref().as_ref().map_or(0, |(_, lease)| millis(*lease))).collect();
        let reading = self.bounds.begin(key, Instant::now());
        let query = sqlx::query(&self.claim)
            .bind(key.lanes.as_deref())
            .bind(millis(key.lease))
            .bind(&owners)
            .bind(session_ms)
            .bind(poll.prefetch as i32)
            .bind(reading.bound_us);
        let rows = query.fetch_all(conn).await?;
        let (mut found, mut next_due_ms, mut now_us, mut oldest) = (Vec::new(), None, None, None);
        for row in &rows {
            let Some(instance) = row.try_get::<Option<String>, _>("instance_id")? else {
                (next_due_ms, now_us) = (row.try_get("next_due_ms")?, row.try_get("due_us")?);
                continue;
            };
            let waiter: i32 = row.try_get("seat")?;
            let due_us: i64 = row.try_get("due_us")?;
            oldest = Some(oldest.map_or(due_us, |oldest: i64| oldest.min(due_us)));
            let token = WorkToken { fence: row.try_get("lock_token")?, id: row.try_get("id")?, instance };
            self.leases.granted(token.fence, key.lease, reading.since());
            let text: &str = row.try_get("work_item")?;
            let item: Option<WorkItem> = item::read(text, &restored(token.instance.clone())).ok();
            if let Some(WorkItem::ActivityExecute { session_id: Some(_), .. }) = item
                && let Some(Some(owner)) = owners.get(waiter as usize)
            {
                self.sessions.claimed(owner);
            }
            found.push((waiter as usize, Activity { item, token, attempt: row.try_get::<i32, _>("attempt")? as u32 }));
        }
        let sweep = self.bounds.end(key, reading, oldest, now_us, Instant::now());
        let mut polled = polled(next_due_ms, sweep);
        for (waiter, activity) in found {
            polled.give(waiter, activity, Some(key.lease));
        }
        Ok(polled)
    }

    async fn give_back(&self, conn: &mut PgConnection, activities: &[Activity]) -> pg::Result<()> {
        let tokens = activities.iter().map(|activity| &activity.token);
        let instances: Vec<&str> = tokens.clone().map(|token| token.instance.as_str()).collect();
        let ids: Vec<i64> = tokens.clone().map(|token| token.id).collect();
        let fences: Vec<Uuid> = tokens.map(|token| token.fence).collect();
        sqlx::query(&self.give_back).bind(instances).bind(ids).bind(fences).execute(conn).await?;
        Ok(())
    }

    fn given_back(&self) {
        self.bounds.forget();
    }

    fn fits(&self, activity: &Activity, _: &Sessionful) -> bool {
        matches!(activity.item, Some(WorkItem::ActivityExecute { session_id: None, .. }))
    }

    fn prefetches(&self) -> bool {
        true
    }

    async fn sweep(&self, conn: &mut PgConnection, keys: &[WorkKey]) -> pg::Result<Vec<usize>> {
        let lanes: Option<Vec<&str>> =
            keys.iter().map(|key| key.lanes.as_ref()).collect::<Option<Vec<_>>>().map(|lanes| {
                let mut lanes: Vec<&str> = lanes.into_iter().flatten().map(String::as_str).collect();
                lanes.sort_unstable();
                lanes.dedup();
                lanes
            });
        let any: bool = sqlx::query_scalar(&self.sweep).bind(lanes).fetch_one(conn).await?;
        Ok(if any { (0..keys.len()).collect() } else { Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same tags in another order are the same lanes; a tag that is called like nothing is not the lane of those without.
    #[test]
    fn lanes_of_filters() {
        let lanes = |filter: &TagFilter| WorkKey::new(Duration::ZERO, filter).map(|key| key.lanes);
        assert_eq!(lanes(&TagFilter::None), None);
        assert_eq!(lanes(&TagFilter::Any), Some(None));
        assert_eq!(lanes(&TagFilter::DefaultOnly), Some(Some(vec![String::new()])));
        assert_eq!(lanes(&TagFilter::tags(["b", "a"])), lanes(&TagFilter::tags(["a", "b"])));
        assert_eq!(lanes(&TagFilter::default_and([""])), Some(Some(vec![String::new(), "#".to_owned()])));
    }
}
