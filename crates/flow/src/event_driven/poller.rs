//! Looks for tasks that nobody heard of.
//!
//! There should be none: workers are woken by what is committed, and the wake engine looks by itself now and then (`fallback_poll_interval`). This asks more often, about tasks that were ready for long and are unclaimed, rings
//! whoever waits for their steps, and counts what it finds.
//!
//! **What it costs.** One statement at most each interval, and none while nothing happens: it asks only about namespaces that somebody in this process waits for, or routes events of, and only if this process has looked for
//! steps or heard an event since it last found nothing. So a process that sleeps sends no statement; what another process commits while this one sleeps, and no notification reaches it, is left to the engine.
//! When the database fails it several times in a row, it pauses.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::announce::Standing;
use super::event::EventSource;
use super::shared::Shared;
use crate::error::Result;
use crate::name::{of_namespace, of_step};
use crate::namespace::Mode;

/// Tasks at a time.
const FOUND_MAX: i64 = 100;

/// Which namespaces somebody in this process waits for.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Mutex<HashMap<String, usize>>);

/// For as long as somebody waits.
pub(crate) struct Waiter<'a> {
    waiting: &'a Waiting,
    namespaces: &'a [String],
}

impl Waiting {
    pub(crate) fn enter<'a>(&'a self, namespaces: &'a [String]) -> Waiter<'a> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for name in namespaces {
            match all.get_mut(name) {
                Some(waiters) => *waiters += 1,
                None => drop(all.insert(name.clone(), 1)),
            }
        }
        Waiter { waiting: self, namespaces }
    }

    fn names(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut all = self.waiting.0.lock().unwrap_or_else(PoisonError::into_inner);
        for name in self.namespaces {
            if let Some(waiters) = all.get_mut(name) {
                *waiters -= 1;
                if *waiters == 0 {
                    all.remove(name);
                }
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
    shared: Arc<Shared>,
    attention: Attention,
}

impl FallbackPoller {
    pub(super) fn new(shared: Arc<Shared>) -> FallbackPoller {
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
        let seen = [claims.looks, claims.items, counted.notifications_received];
        let now = Instant::now();
        if !self.attention.is_due(seen, self.shared.config.fallback_after, now) {
            return;
        }
        let namespaces = self.namespaces();
        if namespaces.is_empty() || !self.breaker(|breaker| breaker.passes(now)) {
            return;
        }
        let found = self.ask(&namespaces).await;
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
                tracing::warn!(error = pg::causes(&error), "tasks that nobody heard of could not be looked for");
            }
        }
    }

    fn breaker<T>(&self, act: impl FnOnce(&mut super::CircuitBreaker) -> T) -> T {
        act(&mut self.shared.breaker.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Those that are waited for here, or whose events are routed.
    fn namespaces(&self) -> Vec<String> {
        let inner = &self.shared.flow.inner;
        let waited: BTreeSet<String> = inner.waiting.names().into_iter().collect();
        let known = inner.namespaces.now();
        let mut names: Vec<String> = known
            .values()
            .filter(|one| one.settings.mode == Mode::EventDriven && one.settings.fallback_enabled)
            .filter(|one| self.shared.router.is_some() || waited.contains(&one.name))
            .map(|one| one.name.clone())
            .collect();
        names.sort_unstable();
        names
    }

    /// Rings for what nobody heard of, and says how many tasks that are.
    async fn ask(&self, namespaces: &[String]) -> Result<usize> {
        let inner = &self.shared.flow.inner;
        let after = self.shared.config.fallback_after.as_millis() as i64;
        let query = || sqlx::query(&inner.sql.forgotten_tasks).bind(namespaces).bind(after).bind(FOUND_MAX);
        let found = inner.db.ask("look for tasks that nobody heard of", query).await?;
        let found = found.iter().map(Standing::of).collect::<sqlx::Result<Vec<_>>>()?;
        if found.is_empty() {
            return Ok(0);
        }
        inner.meter.found.add(found.len() as u64);
        let keys: BTreeSet<String> = found
            .iter()
            .flat_map(|task| {
                let steps = task.names.iter().map(|name| of_step(&task.namespace, name));
                steps.chain([of_namespace(&task.namespace)])
            })
            .collect();
        inner.wake.ring(&[inner.steps_channel.ring_keys(keys.iter().map(String::as_str))]);
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

    /// A namespace is waited for as long as anybody waits for it.
    #[test]
    fn a_namespace_is_waited_for_while_anybody_does() {
        let (waiting, names) = (Waiting::default(), ["a".to_owned()]);
        let one = waiting.enter(&names);
        let other = waiting.enter(&names);
        drop(one);
        assert_eq!(waiting.names(), names);
        drop(other);
        assert!(waiting.names().is_empty());
    }
}
