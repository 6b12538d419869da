//! Activities to execute, and which workers may claim them.
//!
//! Items wait in queues: one per tag and per group of workers that may claim them (any worker, any owner of sessions,
//! one owner). A claim reads the head of each queue that is open to it, so items of other queues cost nothing. As with
//! instances, a lease is a due time: a leased item is in its queue at the end of its lease.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{SessionFetchConfig, TagFilter, WorkItem};

use crate::clock::Time;
use crate::inbox::Due;
use crate::session::Sessions;
use crate::state::{PollResult, unknown};

#[cfg(test)]
mod tests;

/// What a worker claims.
#[derive(Debug)]
pub(crate) struct ClaimRequest<'a> {
    pub(crate) tags: &'a TagFilter,
    /// `None` takes no items of sessions.
    pub(crate) session: Option<&'a SessionFetchConfig>,
}

/// An activity to execute, with what identifies and routes it.
#[derive(Debug)]
pub(crate) struct Activity {
    instance: Arc<str>,
    execution: u64,
    id: u64,
    tag: Option<String>,
    session: Option<String>,
    item: WorkItem,
}

impl Activity {
    /// Only activities can be executed.
    pub(crate) fn new(item: WorkItem) -> Result<Self, String> {
        let WorkItem::ActivityExecute { instance, execution_id, id, tag, session_id, .. } = &item else {
            return Err("a worker executes activities only: other work items are for an orchestration".to_owned());
        };
        Ok(Self {
            instance: instance.as_str().into(),
            execution: *execution_id,
            id: *id,
            tag: tag.clone(),
            session: session_id.clone(),
            item,
        })
    }

    fn identity(&self, rank: u64) -> Identity {
        (Arc::clone(&self.instance), self.execution, self.id, rank)
    }
}

/// Instance, execution and id of an activity, and the item's rank, since nothing forbids two.
type Identity = (Arc<str>, u64, u64, u64);

#[derive(Debug)]
struct Row {
    activity: Activity,
    visible: Time,
    /// Claims so far.
    attempts: u32,
    /// `None` if it is not leased. An expired lease stays until the next claim or its own abandon.
    lease: Option<(String, Time)>,
}

impl Row {
    fn due(&self, rank: u64) -> Due {
        (self.lease.as_ref().map_or(self.visible, |(_, until)| *until), rank)
    }
}

/// Which workers may claim an item.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Access {
    /// It has no session.
    Anyone,
    /// Its session has no owner: the worker that claims it becomes the owner.
    AnyOwner,
    Owner(String),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct QueueKey {
    tag: Option<String>,
    access: Access,
}

/// All work items.
#[derive(Debug, Default)]
pub(crate) struct Work {
    rows: HashMap<u64, Row>,
    queues: BTreeMap<QueueKey, BTreeSet<Due>>,
    tokens: HashMap<String, u64>,
    identities: BTreeSet<Identity>,
    sessions: Sessions,
    /// The items of each session.
    members: HashMap<String, BTreeSet<u64>>,
}

impl Work {
    pub(crate) fn put(&mut self, (visible, rank): Due, activity: Activity) {
        if let Some(session) = &activity.session {
            self.members.entry(session.clone()).or_default().insert(rank);
        }
        self.identities.insert(activity.identity(rank));
        self.rows.insert(rank, Row { activity, visible, attempts: 0, lease: None });
        self.stand(rank);
    }

    /// Leases the first item in the queues open to `request`.
    pub(crate) fn claim(
        &mut self,
        now: Time,
        lease_for: Duration,
        request: &ClaimRequest<'_>,
        token: impl FnOnce() -> String,
    ) -> PollResult<(WorkItem, String, u32)> {
        while let Some((session, owner)) = self.sessions.collect(now) {
            self.hand_over(&session, &Access::Owner(owner), &Access::AnyOwner);
        }
        let rank = match self.first(request) {
            Some((due, rank)) if due <= now => rank,
            first => {
                let session_end = request.session.and_then(|_| self.sessions.next_end());
                return PollResult::Empty(first.map(|(due, _)| due).into_iter().chain(session_end).min());
            }
        };
        self.step_out(rank);
        let row = self.rows.get_mut(&rank).expect("an item in a queue is stored");
        let token = token();
        if let Some((ended, _)) = row.lease.replace((token.clone(), now.after(lease_for))) {
            self.tokens.remove(&ended);
        }
        self.tokens.insert(token.clone(), rank);
        row.attempts += 1;
        let found = (row.activity.item.clone(), token, row.attempts);
        let session = row.activity.session.clone();
        self.stand(rank);
        if let (Some(session), Some(config)) = (session, request.session) {
            let before = self.access(Some(&session));
            self.sessions.hold(&session, &config.owner_id, now, now.after(config.lock_timeout));
            self.hand_over(&session, &before, &Access::Owner(config.owner_id.clone()));
        }
        PollResult::Claimed(found)
    }

    /// The first item that `want` takes, due or not.
    fn first(&self, request: &ClaimRequest<'_>) -> Option<Due> {
        let mut open = vec![Access::Anyone];
        if let Some(config) = request.session {
            open.extend([Access::AnyOwner, Access::Owner(config.owner_id.clone())]);
        }
        let head = |queue_key: &QueueKey| self.queues.get(queue_key).and_then(BTreeSet::first).copied();
        let heads = |tag: Option<&String>| {
            let queues = open.iter().map(move |access| QueueKey { tag: tag.cloned(), access: access.clone() });
            queues.filter_map(|queue_key| head(&queue_key)).min()
        };
        match request.tags {
            TagFilter::None => None,
            TagFilter::DefaultOnly => heads(None),
            TagFilter::Tags(tags) => tags.iter().filter_map(|tag| heads(Some(tag))).min(),
            TagFilter::DefaultAnd(tags) => tags.iter().map(Some).chain([None]).filter_map(heads).min(),
            TagFilter::Any => {
                let queues = self.queues.iter().filter(|(queue_key, _)| open.contains(&queue_key.access));
                queues.filter_map(|(_, dues)| dues.first().copied()).min()
            }
        }
    }

    /// Ends an item that `token` holds now.
    pub(crate) fn complete(&mut self, now: Time, token: &str) -> Result<(), String> {
        let rank = self.held(now, token)?;
        let row = self.remove(rank);
        if let Some(session) = &row.activity.session {
            self.sessions.touch(session, now);
        }
        Ok(())
    }

    /// Moves the end of a lease that has not ended.
    pub(crate) fn renew(&mut self, now: Time, token: &str, lease_for: Duration) -> Result<(), String> {
        let rank = self.held(now, token)?;
        self.step_out(rank);
        let row = self.rows.get_mut(&rank).expect("a held item is stored");
        row.lease = Some((token.to_owned(), now.after(lease_for)));
        if let Some(session) = &row.activity.session {
            self.sessions.touch(session, now);
        }
        self.stand(rank);
        Ok(())
    }

    /// Gives an item back: visible after `delay`, or as it was. A lease that has ended is still its holder's to give
    /// back.
    pub(crate) fn abandon(
        &mut self,
        now: Time,
        token: &str,
        delay: Option<Duration>,
        uncharged: bool,
    ) -> Result<(), String> {
        let rank = self.tokens.remove(token).ok_or_else(|| unknown(token))?;
        self.step_out(rank);
        let row = self.rows.get_mut(&rank).expect("a held item is stored");
        row.lease = None;
        row.attempts -= u32::from(uncharged && row.attempts > 0);
        if let Some(delay) = delay {
            row.visible = now.after(delay);
        }
        self.stand(rank);
        Ok(())
    }

    fn held(&self, now: Time, token: &str) -> Result<u64, String> {
        let rank = self.tokens.get(token).copied().ok_or_else(|| unknown(token))?;
        match &self.rows[&rank].lease {
            Some((_, until)) if *until > now => Ok(rank),
            _ => Err(format!("lock_token {token} has expired: another worker may hold the item")),
        }
    }

    /// Removes an activity, leased or not: the next renewal or ack of the lease fails.
    pub(crate) fn cancel(&mut self, instance: &str, execution: u64, id: u64) {
        let instance: Arc<str> = instance.into();
        let range = (Arc::clone(&instance), execution, id, 0)..=(instance, execution, id, u64::MAX);
        self.remove_all(range);
    }

    /// Removes every activity of an instance. How many.
    pub(crate) fn remove_instance(&mut self, instance: &Arc<str>) -> usize {
        let range = (Arc::clone(instance), 0, 0, 0)..=(Arc::clone(instance), u64::MAX, u64::MAX, u64::MAX);
        self.remove_all(range)
    }

    fn remove_all(&mut self, identities: RangeInclusive<Identity>) -> usize {
        let ranks: Vec<u64> = self.identities.range(identities).map(|(.., rank)| *rank).collect();
        ranks.iter().for_each(|rank| drop(self.remove(*rank)));
        ranks.len()
    }

    fn remove(&mut self, rank: u64) -> Row {
        self.step_out(rank);
        let row = self.rows.remove(&rank).expect("an item in a queue is stored");
        self.identities.remove(&row.activity.identity(rank));
        if let Some((token, _)) = &row.lease {
            self.tokens.remove(token);
        }
        if let Some(session) = &row.activity.session
            && let Some(members) = self.members.get_mut(session)
        {
            members.remove(&rank);
            if members.is_empty() {
                self.members.remove(session);
            }
        }
        row
    }

    /// See [`Sessions::renew`].
    pub(crate) fn renew_sessions(&mut self, owners: &[&str], now: Time, hold: Duration, idle: Duration) -> usize {
        self.sessions.renew(owners, now, hold, idle)
    }

    /// Forgets sessions that have ended and have no items. How many.
    pub(crate) fn sweep_sessions(&mut self, now: Time) -> usize {
        self.sessions.sweep(now, |session| self.members.contains_key(session))
    }

    /// Items that no live lease holds.
    pub(crate) fn free(&self, now: Time) -> usize {
        let held = |row: &&Row| row.lease.as_ref().is_some_and(|(_, until)| *until > now);
        self.rows.len() - self.rows.values().filter(held).count()
    }

    fn access(&self, session: Option<&str>) -> Access {
        let Some(session) = session else { return Access::Anyone };
        self.sessions.owner(session).map_or(Access::AnyOwner, |owner| Access::Owner(owner.to_owned()))
    }

    fn queue_key(&self, row: &Row) -> QueueKey {
        QueueKey { tag: row.activity.tag.clone(), access: self.access(row.activity.session.as_deref()) }
    }

    fn stand(&mut self, rank: u64) {
        let row = &self.rows[&rank];
        let (queue_key, due) = (self.queue_key(row), row.due(rank));
        self.queues.entry(queue_key).or_default().insert(due);
    }

    fn step_out(&mut self, rank: u64) {
        let row = &self.rows[&rank];
        let (queue_key, due) = (self.queue_key(row), row.due(rank));
        leave(&mut self.queues, &queue_key, due);
    }

    /// Moves the items of a session to other queues, because its owner has changed.
    fn hand_over(&mut self, session: &str, from: &Access, to: &Access) {
        if from == to {
            return;
        }
        for rank in self.members.get(session).into_iter().flatten() {
            let row = &self.rows[rank];
            let queue_key = |access: &Access| QueueKey { tag: row.activity.tag.clone(), access: access.clone() };
            leave(&mut self.queues, &queue_key(from), row.due(*rank));
            self.queues.entry(queue_key(to)).or_default().insert(row.due(*rank));
        }
    }
}

fn leave(queues: &mut BTreeMap<QueueKey, BTreeSet<Due>>, queue_key: &QueueKey, due: Due) {
    if let Some(dues) = queues.get_mut(queue_key) {
        dues.remove(&due);
        if dues.is_empty() {
            queues.remove(queue_key);
        }
    }
}
