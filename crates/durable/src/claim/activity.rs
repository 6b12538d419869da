//! Claims activities.
//!
//! Waiters with the same lease time and the same tags share a poll. They differ in the sessions that they accept, so the
//! claim takes the session owner of each waiter: activities without a session go to any of them, those of a session to
//! its owner.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{SessionFetchConfig, TagFilter, WorkItem};
use reveille_pg::{Schema, Sql};
use reveille_wake::{
    AttachedPoll, Channel, Claim, PollRequest, PollResult, Scan, ScanBounds, SentClaims, Topic, UnansweredClaims,
};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};
use tokio::time::Instant;
use uuid::Uuid;

use super::lease::{LeasedItem, Leases};
use super::leased::poll_result;
use super::session::Sessions;
use super::unanswered::{answered_unless_lost, within_reason};
use crate::text::{escape, unescape};
use crate::token::ActivityToken;
use crate::write::{millis, read_work_item, tag_queue};

/// Waiters with the same key share a poll.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ActivityKey {
    pub(crate) lease: Duration,
    /// The tag queues to claim from, sorted; `None`: all.
    pub(crate) tag_queues: Option<Vec<String>>,
}

impl ActivityKey {
    /// `None` for a filter that accepts nothing.
    pub(crate) fn new(lease: Duration, tags: &TagFilter) -> Option<ActivityKey> {
        let mut tag_queues: Vec<String> = match tags {
            TagFilter::None => return None,
            TagFilter::Any => return Some(ActivityKey { lease, tag_queues: None }),
            TagFilter::DefaultOnly => vec![tag_queue(None)],
            TagFilter::Tags(tags) => tags.iter().map(|tag| tag_queue(Some(tag))).collect(),
            TagFilter::DefaultAnd(tags) => {
                tags.iter().map(|tag| tag_queue(Some(tag))).chain([tag_queue(None)]).collect()
            }
        };
        tag_queues.sort_unstable();
        Some(ActivityKey { lease, tag_queues: Some(tag_queues) })
    }
}

/// The owner of the sessions that a waiter accepts, escaped, and for how long it claims one. `None`: no sessions.
pub(crate) type SessionOwner = Option<(String, Duration)>;

pub(crate) fn session_owner(session: Option<&SessionFetchConfig>) -> SessionOwner {
    session.map(|session| (escape(&session.owner_id).into_owned(), session.lock_timeout))
}

/// A leased activity.
#[derive(Debug)]
pub(crate) struct Activity {
    /// `None`: the stored text is not a work item.
    pub(crate) item: Option<WorkItem>,
    pub(crate) token: ActivityToken,
    pub(crate) attempt: u32,
}

/// What an ack must know in order to be pipelined.
fn leased_item(token: &ActivityToken, item: &WorkItem) -> Option<LeasedItem> {
    let WorkItem::ActivityExecute { execution_id, id, .. } = item else { return None };
    let instance = token.instance.clone();
    Some(LeasedItem::Activity { instance, execution: *execution_id as i64, activity: *id as i64 })
}

/// The claim of activities.
pub(crate) struct ActivityClaim {
    pub(crate) channel: Channel,
    pub(crate) bounds: Arc<ScanBounds<ActivityKey>>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) sessions: Arc<Sessions>,
    unanswered: UnansweredClaims<Uuid>,
    claim: Sql,
    unanswered_work: Sql,
    give_back: Sql,
    sweep: Sql,
}

impl ActivityClaim {
    pub(crate) fn new(
        schema: &Schema,
        channel: Channel,
        leases: Arc<Leases>,
        sessions: Arc<Sessions>,
    ) -> ActivityClaim {
        ActivityClaim {
            channel,
            bounds: Arc::new(ScanBounds::new()),
            leases,
            sessions,
            unanswered: UnansweredClaims::new(),
            claim: schema.sql(reveille_pg::statement!("claim_work")),
            unanswered_work: schema.sql(reveille_pg::statement!("unanswered_work")),
            give_back: schema.sql(reveille_pg::statement!("give_back_work")),
            sweep: schema.sql(reveille_pg::statement!("sweep_work")),
        }
    }
}

impl Claim for ActivityClaim {
    type Key = ActivityKey;
    type Args = SessionOwner;
    type Item = Activity;

    fn topics(&self, _: &ActivityKey) -> Vec<Topic> {
        vec![self.channel.topic()]
    }

    fn visibility_key(&self, args: &SessionOwner) -> Option<Box<str>> {
        args.as_ref().map(|(owner, _)| owner.as_str().into())
    }

    async fn poll(
        &self,
        conn: &mut PgConnection,
        poll: &PollRequest<ActivityKey, SessionOwner>,
    ) -> reveille_pg::Result<PollResult<Activity>> {
        self.release_unanswered(conn).await?;
        let scan = self.bounds.begin(&poll.key, Instant::now());
        let sent = self.tokens(poll);
        let claimed = bind(sqlx::query(&self.claim), poll, &sent, scan).fetch_all(conn).await;
        let (rows, sent) = answered_unless_lost(claimed, sent)?;
        let result = self.claimed(poll, scan, &rows)?;
        sent.answered();
        Ok(result)
    }

    async fn give_back(&self, conn: &mut PgConnection, activities: &[Activity]) -> reveille_pg::Result<()> {
        let tokens = || activities.iter().map(|activity| &activity.token);
        let instances = tokens().map(|token| token.instance.clone()).collect();
        let ids = tokens().map(|token| token.id).collect();
        self.release(conn, instances, ids, tokens().map(|token| token.fence).collect()).await
    }

    fn given_back(&self) {
        self.bounds.forget();
    }

    fn fits(&self, activity: &Activity, _: &SessionOwner) -> bool {
        matches!(activity.item, Some(WorkItem::ActivityExecute { session_id: None, .. }))
    }

    async fn sweep(&self, conn: &mut PgConnection, keys: &[ActivityKey]) -> reveille_pg::Result<Vec<usize>> {
        let tag_queues: Option<Vec<&str>> =
            keys.iter().map(|key| key.tag_queues.as_ref()).collect::<Option<Vec<_>>>().map(|tag_queues| {
                let mut tag_queues: Vec<&str> = tag_queues.into_iter().flatten().map(String::as_str).collect();
                tag_queues.sort_unstable();
                tag_queues.dedup();
                tag_queues
            });
        let any: bool = sqlx::query_scalar(&self.sweep).bind(tag_queues).fetch_one(conn).await?;
        Ok(if any { (0..keys.len()).collect() } else { Vec::new() })
    }
}

impl ActivityClaim {
    /// A token for each waiter of a poll.
    fn tokens(&self, poll: &PollRequest<ActivityKey, SessionOwner>) -> SentClaims<Uuid> {
        self.unanswered.sent(poll.waiters.iter().map(|_| Uuid::new_v4()))
    }

    /// Releases the activities of claims whose answer was lost.
    async fn release_unanswered(&self, conn: &mut PgConnection) -> reveille_pg::Result<()> {
        let lost = self.unanswered.take();
        if !lost.names().is_empty() {
            let (mut instances, mut ids, mut fences) = (Vec::new(), Vec::new(), Vec::new());
            let leases = sqlx::query(&self.unanswered_work).bind(lost.names()).fetch_all(&mut *conn);
            let leases = match within_reason(leases).await {
                Ok(leases) => leases?,
                Err(late) => {
                    lost.answered();
                    return Err(late);
                }
            };
            for row in leases {
                instances.push(row.try_get(0)?);
                ids.push(row.try_get(1)?);
                fences.push(row.try_get(2)?);
            }
            if !ids.is_empty() {
                self.release(conn, instances, ids, fences).await?;
                self.bounds.forget();
            }
            lost.answered();
        }
        Ok(())
    }

    async fn release(
        &self,
        conn: &mut PgConnection,
        instances: Vec<String>,
        ids: Vec<i64>,
        fences: Vec<Uuid>,
    ) -> reveille_pg::Result<()> {
        sqlx::query(&self.give_back).bind(instances).bind(ids).bind(fences).execute(conn).await?;
        Ok(())
    }

    /// Binds the claim to the statement of a write batch. Returns how it scans.
    pub(crate) fn bind_in_write<'q>(
        &self,
        query: Query<'q, Postgres, PgArguments>,
        poll: &'q AttachedPoll<ActivityClaim>,
    ) -> (Query<'q, Postgres, PgArguments>, Scan) {
        let scan = self.bounds.begin_in_write(&poll.request().key, Instant::now());
        let sent = self.tokens(poll.request());
        let query = bind(query, poll.request(), &sent, scan);
        poll.keep_sent(sent);
        (query, scan)
    }

    /// Reads the rows of the claim.
    pub(crate) fn claimed(
        &self,
        poll: &PollRequest<ActivityKey, SessionOwner>,
        scan: Scan,
        rows: &[PgRow],
    ) -> reveille_pg::Result<PollResult<Activity>> {
        let key = &poll.key;
        let (mut claimed, mut next_due_ms, mut now_us, mut oldest) = (Vec::new(), None, None, None);
        for row in rows {
            let Some(instance) = row.try_get::<Option<String>, _>("instance_id")? else {
                (next_due_ms, now_us) = (row.try_get("next_due_ms")?, row.try_get("due_us")?);
                continue;
            };
            let waiter: i32 = row.try_get("waiter")?;
            let due_us: i64 = row.try_get("due_us")?;
            oldest = Some(oldest.map_or(due_us, |oldest: i64| oldest.min(due_us)));
            let token = ActivityToken { fence: row.try_get("lock_token")?, id: row.try_get("id")?, instance };
            let attempt: i32 = row.try_get("attempt")?;
            let text: &str = row.try_get("work_item")?;
            let item: Option<WorkItem> = read_work_item(text, &unescape(token.instance.clone())).ok();
            let leased = item.as_ref().filter(|_| attempt == 1).and_then(|item| leased_item(&token, item));
            self.leases.granted(token.fence, key.lease, scan.since(), leased);
            if let Some(WorkItem::ActivityExecute { session_id: Some(_), .. }) = item
                && let Some(Some((owner, _))) = poll.waiters.get(waiter as usize).map(|waiter| &*waiter.args)
            {
                self.sessions.claimed(owner);
            }
            claimed.push((waiter as usize, Activity { item, token, attempt: attempt as u32 }));
        }
        let sweep = self.bounds.end(key, scan, oldest, now_us, Instant::now());
        let mut result = poll_result(next_due_ms, sweep);
        for (waiter, activity) in claimed {
            result.give(waiter, activity, Some(key.lease));
        }
        Ok(result)
    }
}

fn bind<'q>(
    query: Query<'q, Postgres, PgArguments>,
    poll: &'q PollRequest<ActivityKey, SessionOwner>,
    tokens: &SentClaims<Uuid>,
    scan: Scan,
) -> Query<'q, Postgres, PgArguments> {
    let sessions = || poll.waiters.iter().map(|waiter| waiter.args.as_ref().as_ref());
    query
        .bind(poll.key.tag_queues.as_deref())
        .bind(millis(poll.key.lease))
        .bind(tokens.names().to_vec())
        .bind(sessions().map(|session| session.map(|(owner, _)| owner.as_str())).collect::<Vec<_>>())
        .bind(sessions().map(|session| session.map_or(0, |(_, lease)| millis(*lease))).collect::<Vec<_>>())
        .bind(scan.bound_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order of tags does not matter, and an empty tag is different from no tag.
    #[test]
    fn filters_select_tag_queues() {
        let queues = |filter: &TagFilter| ActivityKey::new(Duration::ZERO, filter).map(|key| key.tag_queues);
        assert_eq!(queues(&TagFilter::None), None);
        assert_eq!(queues(&TagFilter::Any), Some(None));
        assert_eq!(queues(&TagFilter::DefaultOnly), Some(Some(vec![String::new()])));
        assert_eq!(queues(&TagFilter::tags(["b", "a"])), queues(&TagFilter::tags(["a", "b"])));
        assert_eq!(queues(&TagFilter::default_and([""])), Some(Some(vec![String::new(), "#".to_owned()])));
    }
}
