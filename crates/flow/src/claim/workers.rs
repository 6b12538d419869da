//! The workers that claim from this process: what each of them waits for, and when it claimed last.
//!
//! For operators only, who want to know why a step is not claimed. The memory is bounded: beyond the bound, workers
//! that do not wait are forgotten, and further ones are not recorded. Nothing else depends on it.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::claim::Key;

/// The most names of workers, namespaces and steps that are recorded: about 20 MB, if they are as long as allowed.
const NAMES_MAX: usize = 100_000;
/// How long a worker that does not wait is remembered: longer than a handler usually takes.
const REMEMBERED: Duration = Duration::from_secs(600);

/// The workers that claim from this process.
#[derive(Default)]
pub(crate) struct ClaimingWorkers(Mutex<Recorded>);

#[derive(Default)]
struct Recorded {
    /// By the name of the worker.
    claims: HashMap<String, Vec<Claiming>>,
    /// The number of names in `claims`.
    names: usize,
}

/// What a worker claims.
#[derive(Clone)]
pub(crate) struct Claiming {
    pub(crate) key: Key,
    /// Its claims that wait now.
    pub(crate) waiting: usize,
    /// When the last of its claims began or ended.
    pub(crate) last: Instant,
}

/// Records a claim until it is dropped.
pub(crate) struct RunningClaim<'a> {
    workers: &'a ClaimingWorkers,
    worker: &'a str,
    key: &'a Key,
}

impl Key {
    /// The number of its names.
    fn weight(&self) -> usize {
        1 + self.namespaces.len() + self.steps.as_ref().map_or(0, Vec::len) + self.left_out.len()
    }
}

impl ClaimingWorkers {
    /// Records a claim that begins.
    pub(crate) fn enter<'a>(&'a self, worker: &'a str, key: &'a Key) -> RunningClaim<'a> {
        self.0.lock().change(worker, key, 1, Instant::now());
        RunningClaim { workers: self, worker, key }
    }

    /// All workers, by name.
    pub(crate) fn all(&self) -> Vec<(String, Vec<Claiming>)> {
        let mut recorded = self.0.lock();
        recorded.forget(REMEMBERED, Instant::now());
        let mut all: Vec<_> = recorded.claims.iter().map(|(name, claims)| (name.clone(), claims.clone())).collect();
        drop(recorded);
        all.sort_by(|one, other| one.0.cmp(&other.0));
        all
    }

    /// How many workers wait for a step with this name, and how long ago another one claimed it last.
    pub(crate) fn of_step(&self, namespace: &str, step: &str) -> (usize, Option<Duration>) {
        let recorded = self.0.lock();
        let (mut waiting, mut last) = (0, None);
        for claims in recorded.claims.values() {
            let of_step = || claims.iter().filter(|claim| claim.key.is_for(namespace, step));
            waiting += usize::from(of_step().any(|claim| claim.waiting > 0));
            last = last.max(of_step().map(|claim| claim.last).max());
        }
        (waiting, last.map(|last| last.elapsed()))
    }
}

impl Drop for RunningClaim<'_> {
    fn drop(&mut self) {
        self.workers.0.lock().change(self.worker, self.key, -1, Instant::now());
    }
}

impl Recorded {
    fn change(&mut self, worker: &str, key: &Key, by: isize, now: Instant) {
        let claims = self.claims.get_mut(worker);
        if let Some(claim) = claims.and_then(|claims| claims.iter_mut().find(|claim| claim.key == *key)) {
            claim.waiting = claim.waiting.saturating_add_signed(by);
            claim.last = now;
            return;
        }
        if by < 0 {
            return;
        }
        let weight = key.weight();
        if self.names + weight > NAMES_MAX {
            self.forget(Duration::ZERO, now);
        }
        if self.names + weight <= NAMES_MAX {
            self.names += weight;
            let claim = Claiming { key: key.clone(), waiting: 1, last: now };
            self.claims.entry(worker.to_owned()).or_default().push(claim);
        }
    }

    /// Forgets claims that do not wait and ended longer ago.
    fn forget(&mut self, after: Duration, now: Instant) {
        self.claims.retain(|_, claims| {
            claims.retain(|claim| claim.waiting > 0 || now.saturating_duration_since(claim.last) < after);
            !claims.is_empty()
        });
        self.names = self.claims.values().flatten().map(|claim| claim.key.weight()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(step: &str) -> Key {
        Key { namespaces: vec!["shop".to_owned()], steps: Some(vec![step.to_owned()]), left_out: Vec::new() }
    }

    /// A worker waits until its claim is dropped, and is then remembered as one that claimed.
    #[tokio::test(start_paused = true)]
    async fn a_worker_is_remembered_after_its_claim() {
        let (workers, key) = (ClaimingWorkers::default(), key("pack"));
        let claim = workers.enter("w", &key);
        assert_eq!((workers.of_step("shop", "pack").0, workers.of_step("shop", "send").0), (1, 0));
        drop(claim);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(workers.of_step("shop", "pack"), (0, Some(Duration::from_secs(5))));
        tokio::time::advance(REMEMBERED).await;
        assert!(workers.all().is_empty());
    }

    /// Beyond the bound, workers that do not wait are forgotten, and those that wait stay.
    #[tokio::test(start_paused = true)]
    async fn the_record_is_bounded() {
        let workers = ClaimingWorkers::default();
        let waits = key("waits");
        let _waiting = workers.enter("waits", &waits);
        for number in 0..NAMES_MAX {
            drop(workers.enter(&format!("worker {number}"), &key("pack")));
        }
        let all = workers.all();
        assert!(all.len() <= NAMES_MAX / 3, "{}", all.len());
        assert!(all.iter().any(|(name, _)| name == "waits"));
    }
}
