//! Everything that is stored, behind one lock.
//!
//! Each method is one transaction: it checks first and changes then, so an error has changed nothing. Time comes in as
//! an argument, once per call, as a transaction has one `now()`.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use duroxide::Event;
use duroxide::providers::{OrchestrationItem, WorkItem};

use crate::clock::Time;
use crate::inbox::{Lease, Pins, Ready};
use crate::instance::Instance;
use crate::work::{Activity, ClaimRequest, Work};

#[cfg(test)]
mod tests;

/// The version of an orchestration whose start named none: the runtime resolves it in the first turn.
const UNRESOLVED: &str = "unknown";

/// The result of a poll: an item, or when to poll again.
#[derive(Debug)]
pub(crate) enum PollResult<T> {
    Claimed(T),
    /// Nothing now. `None` if only a change can bring something.
    Empty(Option<Time>),
}

/// Everything that is stored.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) instances: HashMap<Arc<str>, Instance>,
    /// Instances by the parent that their profile names.
    pub(crate) children: HashMap<String, BTreeSet<Arc<str>>>,
    /// The leased instance of each token; removed with the lease.
    pub(crate) turns: HashMap<String, Arc<str>>,
    pub(crate) ready: Ready,
    pub(crate) work: Work,
    numbers: Numbers,
}

/// Numbers that are used once.
#[derive(Debug, Default)]
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }

    fn token(&mut self) -> String {
        format!("lease-{}", self.next())
    }
}

impl State {
    pub(crate) fn number(&mut self) -> u64 {
        self.numbers.next()
    }

    /// Leases the first instance in line with all its visible messages.
    pub(crate) fn claim_turn(
        &mut self,
        now: Time,
        lease_for: Duration,
        pins: Pins<'_>,
    ) -> PollResult<(OrchestrationItem, String, u32)> {
        loop {
            let id = match self.ready.first(pins) {
                Some(((due, _), id)) if due <= now => Arc::clone(id),
                first => return PollResult::Empty(first.map(|((due, _), _)| due)),
            };
            let instance = self.instances.get_mut(&id).expect("an instance in line is stored");
            let Some((name, version)) = identity(instance, now) else {
                // Nothing to run. What is left after the orphans are gone waits for a start.
                if instance.inbox.drop_orphans(now) {
                    self.reindex(&id);
                } else {
                    self.ready.leave(&mut instance.inbox);
                }
                continue;
            };
            if let Some(ended) = instance.inbox.lease.take() {
                self.turns.remove(&ended.token);
            }
            let token = self.numbers.token();
            let (messages, attempts) = instance.inbox.claim(now, token.clone(), now.after(lease_for));
            let execution = instance.profile.as_ref().map(|profile| profile.current);
            let (history, history_error, kv_snapshot) = match instance.read(execution.unwrap_or(instance.latest())) {
                Ok(history) => (history, None, instance.kv.snapshot()),
                Err(error) => (Vec::new(), Some(error), HashMap::new()),
            };
            let item = OrchestrationItem {
                instance: id.to_string(),
                orchestration_name: name,
                execution_id: execution.unwrap_or(duroxide::INITIAL_EXECUTION_ID),
                version,
                history,
                messages,
                history_error,
                kv_snapshot,
            };
            self.turns.insert(token.clone(), Arc::clone(&id));
            self.reindex(&id);
            return PollResult::Claimed((item, token, attempts));
        }
    }

    /// Moves the end of a lease that has not ended.
    pub(crate) fn renew_turn(&mut self, now: Time, token: &str, lease_for: Duration) -> Result<(), String> {
        let id = self.held(now, token)?;
        let lease = self.lease(&id).expect("a held instance has a lease");
        lease.until = now.after(lease_for);
        self.reindex(&id);
        Ok(())
    }

    /// Abandons the lease of an instance. An expired lease can be abandoned until the next claim.
    pub(crate) fn abandon_turn(
        &mut self,
        now: Time,
        token: &str,
        delay: Option<Duration>,
        uncharged: bool,
    ) -> Result<(), String> {
        let id = self.turns.remove(token).ok_or_else(|| unknown(token))?;
        let inbox = &mut self.instances.get_mut(&id).expect("a held instance is stored").inbox;
        inbox.abandon(delay.map(|delay| now.after(delay)), uncharged);
        self.reindex(&id);
        Ok(())
    }

    /// The instance that `token` holds now.
    pub(crate) fn held(&mut self, now: Time, token: &str) -> Result<Arc<str>, String> {
        let id = self.turns.get(token).cloned().ok_or_else(|| unknown(token))?;
        match self.lease(&id) {
            Some(lease) if lease.until > now => Ok(id),
            _ => Err(format!("lock_token {token} has expired: another dispatcher may hold the instance")),
        }
    }

    fn lease(&mut self, id: &str) -> Option<&mut Lease> {
        self.instances.get_mut(id)?.inbox.lease.as_mut()
    }

    /// Adds a message for an orchestration, visible from `visible` on.
    pub(crate) fn enqueue(&mut self, letter: OutgoingMessage, visible: Time) {
        let OutgoingMessage { to, item } = letter;
        let rank = self.number();
        self.instances.entry(Arc::clone(&to)).or_default().inbox.put((visible, rank), item);
        self.reindex(&to);
    }

    /// Appends to the history of one execution, outside any turn.
    pub(crate) fn append(&mut self, id: &str, execution: u64, events: Vec<Event>) -> Result<(), String> {
        let id: Arc<str> = id.into();
        let instance = self.instances.entry(Arc::clone(&id)).or_default();
        let appended = instance.append(execution, events);
        self.reindex(&id);
        appended
    }

    /// Leases the first work item that `want` takes.
    pub(crate) fn claim_work(
        &mut self,
        now: Time,
        lease_for: Duration,
        request: &ClaimRequest<'_>,
    ) -> PollResult<(WorkItem, String, u32)> {
        let Self { work, numbers, .. } = self;
        work.claim(now, lease_for, request, || numbers.token())
    }

    /// Adds work for a worker, visible now.
    pub(crate) fn enqueue_work(&mut self, now: Time, activity: Activity) {
        let rank = self.number();
        self.work.put((now, rank), activity);
    }

    /// Ends a work item and sends its result to its orchestration, if there is one.
    pub(crate) fn complete_work(&mut self, now: Time, token: &str, result: Option<WorkItem>) -> Result<(), String> {
        let result = result.map(OutgoingMessage::completion).transpose()?;
        self.work.complete(now, token)?;
        if let Some(letter) = result {
            self.enqueue(letter, now);
        }
        Ok(())
    }

    /// Updates the index after a change of an instance, or removes it if nothing is left of it.
    pub(crate) fn reindex(&mut self, id: &Arc<str>) {
        let Some(instance) = self.instances.get_mut(id) else { return };
        let (pin, identified) = (instance.pin(), instance.identity().is_some());
        self.ready.update(id, &mut instance.inbox, pin, identified);
        if instance.is_blank() {
            self.instances.remove(id);
        }
    }
}

/// Name and version of what a turn would run; `None` if nothing has started it and nothing visible starts it.
fn identity(instance: &Instance, now: Time) -> Option<(String, String)> {
    if let Some((name, version)) = instance.identity() {
        return Some((name.to_owned(), version.to_owned()));
    }
    match instance.inbox.start(now)? {
        WorkItem::StartOrchestration { orchestration, version, .. }
        | WorkItem::ContinueAsNew { orchestration, version, .. } => {
            Some((orchestration.clone(), version.clone().unwrap_or_else(|| UNRESOLVED.to_owned())))
        }
        _ => None,
    }
}

/// A message with the instance that it is for.
#[derive(Debug)]
pub(crate) struct OutgoingMessage {
    to: Arc<str>,
    item: WorkItem,
}

impl OutgoingMessage {
    /// Only an activity to execute is for no instance.
    pub(crate) fn new(item: WorkItem) -> Result<Self, String> {
        let to = match &item {
            WorkItem::StartOrchestration { instance, .. }
            | WorkItem::ContinueAsNew { instance, .. }
            | WorkItem::ActivityCompleted { instance, .. }
            | WorkItem::ActivityFailed { instance, .. }
            | WorkItem::TimerFired { instance, .. }
            | WorkItem::ExternalRaised { instance, .. }
            | WorkItem::QueueMessage { instance, .. }
            | WorkItem::CancelInstance { instance, .. } => instance,
            WorkItem::SubOrchCompleted { parent_instance, .. } | WorkItem::SubOrchFailed { parent_instance, .. } => {
                parent_instance
            }
            WorkItem::ActivityExecute { .. } => {
                return Err("an activity to execute is for a worker, not for an orchestration".to_owned());
            }
        };
        Ok(Self { to: to.as_str().into(), item })
    }

    /// The messages that a worker may send to the orchestration of its activity.
    fn completion(item: WorkItem) -> Result<Self, String> {
        match item {
            WorkItem::ActivityCompleted { .. } | WorkItem::ActivityFailed { .. } => Self::new(item),
            _ => Err("an activity ends with ActivityCompleted or ActivityFailed".to_owned()),
        }
    }

    /// When it shows itself: a timer when it fires, though not before it was set; everything else now.
    pub(crate) fn visible(&self, now: Time) -> Time {
        match &self.item {
            WorkItem::TimerFired { fire_at_ms, .. } => now.max(Time::from_millis(*fire_at_ms)),
            _ => now,
        }
    }
}

pub(crate) fn unknown(token: &str) -> String {
    format!("lock_token {token} is not valid: its lease was acked, abandoned, deleted or claimed by another worker")
}
