//! The fallback poller: looks for tasks whose steps stay ready and unclaimed.
//!
//! There should be none: commits wake workers, and the wake engine has a fallback poll (`fallback_poll_interval`). This
//! one runs more often. It looks for tasks that have been ready for long, wakes the claims that wait for their steps,
//! and counts what it finds.
//!
//! **Cost.** At most one statement per interval, and none while nothing happens: it looks only for steps that a claim
//! of this process waits for, or whose events are routed, and only if this process has polled or received an event
//! since the poller last found nothing. So an idle process sends no statement; if a notification is lost while it is
//! idle, the wake engine finds the step. If there are more such tasks than one statement reads, all claims that wait in
//! these namespaces poll once. After several consecutive database errors it pauses.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::announce::TaskSnapshot;
use super::coordination::Coordination;
use super::event::EventSource;
use crate::claim::Key;
use crate::error::Result;
use crate::name::{of_namespace, of_step};
use crate::namespace::Mode;

/// The most tasks of one statement.
const FOUND_MAX: i64 = 100;

/// The most step names per namespace in a statement; beyond it, all steps of the namespace are included.
const NAMES_MAX: usize = 1_000;

/// The keys of the claims that wait in this process, with their number.
#[derive(Debug, Default)]
pub(crate) struct WaitingClaims(Mutex<HashMap<Key, usize>>);

/// Counts a waiting claim until it is dropped.
pub(crate) struct WaitingClaim<'a> {
    waiting: &'a WaitingClaims,
    key: &'a Key,
}

impl WaitingClaims {
    pub(crate) fn enter<'a>(&'a self, key: &'a Key) -> WaitingClaim<'a> {
        let mut all = self.0.lock();
        match all.get_mut(key) {
            Some(waiters) => *waiters += 1,
            None => drop(all.insert(key.clone(), 1)),
        }
        WaitingClaim { waiting: self, key }
    }

    /// The namespaces of waiting claims, and in each the step names; `None`: all, all but some, or too many to list.
    fn names(&self) -> BTreeMap<String, Option<BTreeSet<String>>> {
        let mut all: BTreeMap<String, Option<BTreeSet<String>>> = BTreeMap::new();
        for key in self.0.lock().keys() {
            for namespace in &key.namespaces {
                let names = all.entry(namespace.clone()).or_insert_with(|| Some(BTreeSet::new()));
                match (key.names(), names.as_mut()) {
                    (Some(more), Some(known)) => known.extend(more.iter().cloned()),
                    _ => *names = None,
                }
                names.take_if(|names| names.len() > NAMES_MAX);
            }
        }
        all
    }

    /// The topic keys of the claims that wait in one of these namespaces.
    fn keys(&self, namespaces: &BTreeSet<&str>) -> BTreeSet<String> {
        let all = self.0.lock();
        let of = |key: &Key| {
            let within = key.namespaces.iter().filter(|namespace| namespaces.contains(namespace.as_str()));
            within.flat_map(|namespace| key.keys_in(namespace)).collect::<Vec<_>>()
        };
        all.keys().flat_map(of).collect()
    }

    fn is_for(&self, namespace: &str, step: &str) -> bool {
        self.0.lock().keys().any(|key| key.is_for(namespace, step))
    }
}

impl Drop for WaitingClaim<'_> {
    fn drop(&mut self) {
        let mut all = self.waiting.0.lock();
        if let Some(waiters) = all.get_mut(self.key) {
            *waiters -= 1;
            if *waiters == 0 {
                all.remove(self.key);
            }
        }
    }
}

/// Whether a run is due: there was activity after the last run that found nothing, or so shortly before it that its
/// steps had not been ready for long enough.
#[derive(Debug, Default)]
struct PollCondition {
    seen: [u64; 3],
    /// When there was activity last.
    active: Option<Instant>,
    /// When a run last found nothing.
    clean: Option<Instant>,
}

impl PollCondition {
    fn is_due(&mut self, seen: [u64; 3], after: Duration, now: Instant) -> bool {
        if seen != self.seen {
            (self.seen, self.active) = (seen, Some(now));
        }
        let Some(active) = self.active else { return false };
        self.clean.is_none_or(|clean| clean < active + after)
    }

    fn found_nothing(&mut self, now: Instant) {
        self.clean = Some(now);
    }
}

/// Looks for tasks whose steps stay ready and unclaimed: see the module.
pub struct FallbackPoller {
    shared: Arc<Coordination>,
    condition: PollCondition,
}

impl FallbackPoller {
    pub(super) fn new(shared: Arc<Coordination>) -> FallbackPoller {
        FallbackPoller { shared, condition: PollCondition::default() }
    }

    /// Runs at each interval until it is dropped.
    pub(super) async fn run(mut self) {
        loop {
            sleep(self.shared.config.fallback_interval).await;
            self.poll().await;
        }
    }

    async fn poll(&mut self) {
        let inner = &self.shared.flow.inner;
        let (claims, counted) = (inner.claims.counts(), inner.meter.snapshot());
        let seen = [claims.polls, claims.items, counted.notifications_received];
        let now = Instant::now();
        if !self.condition.is_due(seen, self.shared.config.fallback_after, now) {
            return;
        }
        let steps = self.steps();
        if steps.is_empty() || !self.breaker(|breaker| breaker.passes(now)) {
            return;
        }
        let found = self.find_and_wake(&steps).await;
        let now = Instant::now();
        inner.meter.polled(found.is_ok());
        match found {
            Ok(0) => {
                self.breaker(|breaker| breaker.succeeded());
                self.condition.found_nothing(now);
            }
            Ok(tasks) => {
                self.breaker(|breaker| breaker.succeeded());
                tracing::warn!(
                    tasks,
                    "tasks were ready and unclaimed for long; waking the claims that wait for their steps"
                );
            }
            Err(error) => {
                self.breaker(|breaker| breaker.failed(now));
                tracing::warn!(error = reveille_pg::causes(&error), "looking for unclaimed tasks failed");
            }
        }
    }

    fn breaker<T>(&self, act: impl FnOnce(&mut super::CircuitBreaker) -> T) -> T {
        act(&mut self.shared.breaker.lock())
    }

    /// The steps that claims wait for, or whose events are routed, as namespaces and names; without a name: all steps
    /// of the namespace.
    fn steps(&self) -> Vec<(String, Option<String>)> {
        let inner = &self.shared.flow.inner;
        let known = inner.namespaces.current();
        let is_polled = |name: &String| {
            let settings = known.get(name).map(|one| &one.settings);
            settings.is_some_and(|settings| settings.mode == Mode::EventDriven && settings.fallback_enabled)
        };
        let wanted = match &self.shared.router {
            Some(_) => known.keys().map(|name| (name.clone(), None)).collect(),
            None => inner.waiting.names(),
        };
        let named = |(namespace, names): (String, Option<BTreeSet<String>>)| match names {
            None => vec![(namespace, None)],
            Some(names) => names.into_iter().map(|name| (namespace.clone(), Some(name))).collect(),
        };
        wanted.into_iter().filter(|(name, _)| is_polled(name)).flat_map(named).collect()
    }

    /// Wakes the claims for unclaimed steps, and returns the number of their tasks.
    async fn find_and_wake(&self, steps: &[(String, Option<String>)]) -> Result<usize> {
        let inner = &self.shared.flow.inner;
        let after = self.shared.config.fallback_after.as_millis() as i64;
        let (namespaces, names): (Vec<&str>, Vec<Option<&str>>) =
            steps.iter().map(|(namespace, name)| (namespace.as_str(), name.as_deref())).unzip();
        let query =
            || sqlx::query(&inner.sql.unclaimed_tasks).bind(&namespaces).bind(&names).bind(after).bind(FOUND_MAX);
        let found = inner.db.ask("look for unclaimed tasks", query).await?;
        let mut found = found.iter().map(TaskSnapshot::of).collect::<sqlx::Result<Vec<_>>>()?;
        // A claim may leave out this name, or have ended meanwhile.
        let is_wanted = |task: &TaskSnapshot| task.names.iter().any(|name| inner.waiting.is_for(&task.namespace, name));
        // Beyond the rows that were read there may be one that a waiter wants: all waiters poll once more.
        let is_full = found.len() as i64 >= FOUND_MAX;
        found.retain(|task| self.shared.router.is_some() || is_wanted(task));
        if found.is_empty() && !is_full {
            return Ok(0);
        }
        inner.meter.found.add(found.len() as u64);
        let wake_up = |keys: BTreeSet<String>| [inner.steps_channel.wake_up_keys(keys.iter().map(String::as_str))];
        if is_full {
            inner.wake.wake_local(&wake_up(inner.waiting.keys(&namespaces.iter().copied().collect())));
        }
        let of = |task: &TaskSnapshot| {
            let steps = task.names.iter().map(|name| of_step(&task.namespace, name));
            steps.chain([of_namespace(&task.namespace)]).collect::<Vec<_>>()
        };
        if !found.is_empty() {
            inner.wake.wake_up(&wake_up(found.iter().flat_map(of).collect()));
        }
        for task in &found {
            self.shared.offer(task.event(EventSource::FallbackPoller), None);
        }
        Ok(found.len())
    }
}

impl std::fmt::Debug for FallbackPoller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FallbackPoller").field("condition", &self.condition).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No run is due before the first activity. After activity runs are due until one, long enough after it, finds
    /// nothing.
    #[test]
    fn an_idle_process_does_not_poll() {
        let (mut condition, start) = (PollCondition::default(), Instant::now());
        let (after, later) = (Duration::from_secs(5), |seconds| start + Duration::from_secs(seconds));
        assert!(!condition.is_due([0, 0, 0], after, start));
        assert!(condition.is_due([1, 0, 0], after, start));
        condition.found_nothing(later(1));
        assert!(condition.is_due([1, 0, 0], after, later(2)));
        condition.found_nothing(later(6));
        assert!(!condition.is_due([1, 0, 0], after, later(30)));
        assert!(condition.is_due([2, 0, 0], after, later(31)));
    }

    /// Exactly the steps of waiting claims are included.
    #[test]
    fn the_steps_of_waiting_claims_are_known() {
        let texts = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let named = Key { namespaces: texts(&["n", "o"]), steps: Some(texts(&["a", "b"])), left_out: vec![] };
        let most = Key { namespaces: texts(&["n"]), steps: None, left_out: texts(&["c"]) };
        let waiting = WaitingClaims::default();
        let one = waiting.enter(&named);
        let other = waiting.enter(&named);
        drop(one);
        let names = Some(BTreeSet::from(["a".to_owned(), "b".to_owned()]));
        let expected = BTreeMap::from([("n".to_owned(), names.clone()), ("o".to_owned(), names)]);
        assert_eq!(waiting.names(), expected);
        assert!(waiting.is_for("o", "a") && !waiting.is_for("o", "d") && !waiting.is_for("p", "a"));
        let third = waiting.enter(&most);
        assert_eq!(waiting.names()["n"], None);
        assert!(waiting.is_for("n", "d") && !waiting.is_for("n", "c"));
        drop((other, third));
        assert!(waiting.names().is_empty());
    }
}
