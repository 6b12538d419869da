//! Looks for tasks that nobody heard of.
//!
//! There should be none: workers are woken by what is committed, and the wake engine looks by itself now and then (`fallback_poll_interval`). This asks more often, about tasks that were ready for long and are unclaimed, rings
//! whoever waits for their steps, and counts what it finds.
//!
//! **What it costs.** One statement at most each interval, and none while nothing happens: it asks only about steps that somebody in this process waits for, or routes events of, and only if this process has looked for
//! steps or heard an event since it last found nothing. So a process that sleeps sends no statement; what another process commits while this one sleeps, and no notification reaches it, is left to the engine.
//! While more tasks lie forgotten than it reads at once, it cannot tell whether somebody here waits for one of the others, and whoever waits in their namespaces looks at each interval.
//! When the database fails it several times in a row, it pauses.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::announce::Standing;
use super::coordination::Coordination;
use super::event::EventSource;
use crate::claim::Key;
use crate::claim::unanswered::locked;
use crate::error::Result;
use crate::name::{of_namespace, of_step};
use crate::namespace::Mode;

/// Tasks at a time.
const FOUND_MAX: i64 = 100;

/// Names of steps in a namespace that are asked about one by one; beyond it, all are.
const NAMES_MAX: usize = 1_000;

/// What somebody in this process waits for.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Mutex<HashMap<Key, usize>>);

/// For as long as somebody waits.
pub(crate) struct Waiter<'a> {
    waiting: &'a Waiting,
    key: &'a Key,
}

impl Waiting {
    pub(crate) fn enter<'a>(&'a self, key: &'a Key) -> Waiter<'a> {
        let mut all = locked(&self.0);
        match all.get_mut(key) {
            Some(waiters) => *waiters += 1,
            None => drop(all.insert(key.clone(), 1)),
        }
        Waiter { waiting: self, key }
    }

    /// The namespaces that somebody waits for, and in each the names of steps; `None`: all of them, or too many to name, or all but some.
    fn names(&self) -> BTreeMap<String, Option<BTreeSet<String>>> {
        let mut all: BTreeMap<String, Option<BTreeSet<String>>> = BTreeMap::new();
        for key in locked(&self.0).keys() {
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

    /// What rings those who wait for something in one of these namespaces.
    fn keys(&self, namespaces: &BTreeSet<&str>) -> BTreeSet<String> {
        let all = locked(&self.0);
        let of = |key: &Key| {
            let within = key.namespaces.iter().filter(|namespace| namespaces.contains(namespace.as_str()));
            within.flat_map(|namespace| key.keys_in(namespace)).collect::<Vec<_>>()
        };
        all.keys().flat_map(of).collect()
    }

    fn is_for(&self, namespace: &str, step: &str) -> bool {
        locked(&self.0).keys().any(|key| key.is_for(namespace, step))
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut all = locked(&self.waiting.0);
        if let Some(waiters) = all.get_mut(self.key) {
            *waiters -= 1;
            if *waiters == 0 {
                all.remove(self.key);
            }
        }
    }
}

/// Whether it is worth asking: something has happened since nothing was found, or too shortly before for it to have been found.
#[derive(Debug, Default)]
struct Attention {
    seen: [u64; 3],
    /// When something had happened, at the latest.
    active: Option<Instant>,
    /// When nothing was found.
    clean: Option<Instant>,
}

impl Attention {
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

/// Looks for tasks that nobody heard of, see the module.
pub struct FallbackPoller {
    shared: Arc<Coordination>,
    attention: Attention,
}

impl FallbackPoller {
    pub(super) fn new(shared: Arc<Coordination>) -> FallbackPoller {
        FallbackPoller { shared, attention: Attention::default() }
    }

    /// Asks whenever it is worth it, until it is dropped.
    pub(super) async fn run(mut self) {
        loop {
            sleep(self.shared.config.fallback_interval).await;
            self.turn().await;
        }
    }

    async fn turn(&mut self) {
        let inner = &self.shared.flow.inner;
        let (claims, counted) = (inner.claims.counts(), inner.meter.snapshot());
        let seen = [claims.polls, claims.items, counted.notifications_received];
        let now = Instant::now();
        if !self.attention.is_due(seen, self.shared.config.fallback_after, now) {
            return;
        }
        let steps = self.steps();
        if steps.is_empty() || !self.breaker(|breaker| breaker.passes(now)) {
            return;
        }
        let found = self.ask(&steps).await;
        let now = Instant::now();
        inner.meter.polled(found.is_ok());
        match found {
            Ok(0) => {
                self.breaker(|breaker| breaker.succeeded());
                self.attention.found_nothing(now);
            }
            Ok(tasks) => {
                self.breaker(|breaker| breaker.succeeded());
                tracing::warn!(
                    tasks,
                    "tasks were ready for long and unclaimed: whoever waits for their steps is woken"
                );
            }
            Err(error) => {
                self.breaker(|breaker| breaker.failed(now));
                tracing::warn!(
                    error = reveille_pg::causes(&error),
                    "tasks that nobody heard of could not be looked for"
                );
            }
        }
    }

    fn breaker<T>(&self, act: impl FnOnce(&mut super::CircuitBreaker) -> T) -> T {
        act(&mut locked(&self.shared.breaker))
    }

    /// Those that are waited for here, or whose events are routed, as namespaces and names; without a name: all of a namespace.
    fn steps(&self) -> Vec<(String, Option<String>)> {
        let inner = &self.shared.flow.inner;
        let known = inner.namespaces.now();
        let is_asked = |name: &String| {
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
        wanted.into_iter().filter(|(name, _)| is_asked(name)).flat_map(named).collect()
    }

    /// Rings for what nobody heard of, and says how many tasks that are.
    async fn ask(&self, steps: &[(String, Option<String>)]) -> Result<usize> {
        let inner = &self.shared.flow.inner;
        let after = self.shared.config.fallback_after.as_millis() as i64;
        let (namespaces, names): (Vec<&str>, Vec<Option<&str>>) =
            steps.iter().map(|(namespace, name)| (namespace.as_str(), name.as_deref())).unzip();
        let query =
            || sqlx::query(&inner.sql.forgotten_tasks).bind(&namespaces).bind(&names).bind(after).bind(FOUND_MAX);
        let found = inner.db.ask("look for tasks that nobody heard of", query).await?;
        let mut found = found.iter().map(Standing::of).collect::<sqlx::Result<Vec<_>>>()?;
        // Who leaves some out does not wait for them; nor does who has gone by now.
        let is_wanted = |task: &Standing| task.names.iter().any(|name| inner.waiting.is_for(&task.namespace, name));
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
        let of = |task: &Standing| {
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
        f.debug_struct("FallbackPoller").field("attention", &self.attention).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It is not worth asking before anything happened. After it did it is, until nothing was found long enough after it.
    #[test]
    fn who_sleeps_is_not_asked_for() {
        let (mut attention, start) = (Attention::default(), Instant::now());
        let (after, later) = (Duration::from_secs(5), |seconds| start + Duration::from_secs(seconds));
        assert!(!attention.is_due([0, 0, 0], after, start));
        assert!(attention.is_due([1, 0, 0], after, start));
        attention.found_nothing(later(1));
        assert!(attention.is_due([1, 0, 0], after, later(2)));
        attention.found_nothing(later(6));
        assert!(!attention.is_due([1, 0, 0], after, later(30)));
        assert!(attention.is_due([2, 0, 0], after, later(31)));
    }

    /// Steps are waited for as long as anybody waits for them, and no others are.
    #[test]
    fn steps_are_waited_for_while_anybody_does() {
        let texts = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let named = Key { namespaces: texts(&["n", "o"]), steps: Some(texts(&["a", "b"])), left_out: vec![] };
        let most = Key { namespaces: texts(&["n"]), steps: None, left_out: texts(&["c"]) };
        let waiting = Waiting::default();
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
