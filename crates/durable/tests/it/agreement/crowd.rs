//! Several concurrent tasks in two providers, with random calls that are logged.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{
    ExecutionMetadata, OrchestrationItem, Provider, ProviderError, ScheduledActivityIdentifier, SessionFetchConfig,
    TagFilter, WorkItem,
};
use duroxide::{Event, EventKind};
use fastrand::Rng;
use reveille_durable::PostgresProvider;
use tokio::time::Instant;

use super::ledger::{Ack, Ledger, TurnOutcome, Turned, WorkOutcome, Worked};
use super::payload::{NAME, VERSION, activity, message, numbered, raised, started};
use super::step::{KEYS, Kind, Route, SESSIONS, TAGS};

/// A lease that lasts as long as needed.
const LEASE: Duration = Duration::from_secs(60);
/// A lease of a worker that does not come back; its sessions expire as soon.
const LEFT: Duration = Duration::from_millis(150);
/// How long a fetch waits for work.
const WAIT: Duration = Duration::from_millis(20);

/// What sends messages without a worker's or an instance's doing.
const SENT: [Kind; 6] =
    [Kind::Raised, Kind::Cancel, Kind::Queue, Kind::ChildCompleted, Kind::ChildFailed, Kind::Failed];

/// One of the workers.
pub(super) struct Member {
    pub(super) name: String,
    pub(super) provider: PostgresProvider,
    pub(super) ledger: Arc<Ledger>,
    pub(super) random: Rng,
    /// Tokens of leases that have ended by themselves, by when.
    pub(super) dead: Vec<(Instant, String)>,
    /// Payloads so far.
    pub(super) count: u64,
    /// What is there is done and nothing is added.
    pub(super) finishing: bool,
}

impl Member {
    /// Does something.
    pub(super) async fn act(&mut self) {
        match self.random.u8(0..10) {
            0..3 if !self.finishing => self.send().await,
            0..7 => self.turn().await,
            7..9 => self.work().await,
            _ => self.come_back_late().await,
        }
    }

    fn fresh(&mut self) -> String {
        self.count += 1;
        format!("{}-{}", self.name, self.count)
    }

    fn chance(&mut self, percent: u8) -> bool {
        !self.finishing && self.random.u8(0..100) < percent
    }

    /// Starts an instance, or sends a message to one that was started.
    async fn send(&mut self) {
        let data = self.fresh();
        let to = self.ledger.some_instance(&mut self.random);
        let (to, kind) = match to {
            Some(to) if !self.random.u8(0..5).eq(&0) => (to, self.random.choice(SENT).expect("some")),
            _ => (format!("i-{data}"), Kind::Start),
        };
        let item = message(kind, &to, &data, 0);
        self.provider.enqueue_for_orchestrator(item.clone(), None).await.expect("sent");
        self.ledger.sent([item]);
        if kind == Kind::Start {
            self.ledger.started(to);
        }
    }

    async fn turn(&mut self) {
        let leaves = self.chance(10);
        let lease = if leaves { LEFT } else { LEASE };
        let fetched = self.provider.fetch_orchestration_item(lease, WAIT, None).await;
        let Some((item, token, attempt)) = found(fetched) else { return };
        let stamp = self.ledger.stamp();
        let continued = item.messages.iter().any(|item| matches!(item, WorkItem::ContinueAsNew { .. }));
        let outcome = if leaves {
            self.dead.push((Instant::now() + LEFT, token));
            TurnOutcome::Left
        } else if self.chance(15) {
            let uncounted = self.random.bool();
            // What continues an execution comes before what is for it.
            let delay = (!continued && self.random.bool()).then_some(Duration::from_millis(5));
            self.provider.abandon_orchestration_item(&token, delay, uncounted).await.expect("abandoned");
            TurnOutcome::Abandoned { uncounted }
        } else {
            if self.chance(20) {
                self.provider.renew_orchestration_item_lock(&token, LEASE).await.expect("renewed");
            }
            let ack = self.decide(&item, continued);
            let begun = self.ledger.stamp();
            let Ack { execution, events, work, messages, metadata, cancelled } = ack.clone();
            self.provider
                .ack_orchestration_item(&token, execution, events, work, messages, metadata, cancelled)
                .await
                .expect("a live lease is acked");
            self.ledger.committed(&ack);
            TurnOutcome::Acked { begun, ack: Box::new(ack) }
        };
        self.ledger.turned(Turned { item, attempt, fetched: stamp, outcome });
    }

    /// What a turn does: an event for each message, and now and then something more.
    fn decide(&mut self, item: &OrchestrationItem, continued: bool) -> Ack {
        let (instance, first) = (item.instance.as_str(), item.history.is_empty());
        let ended = item.history.last().is_some_and(Event::is_terminal);
        assert!(!ended || continued, "{instance} got messages between its executions: {:?}", item.messages);
        let execution = item.execution_id + u64::from(ended);
        let last = if ended { 0 } else { item.history.last().map_or(0, |event| event.event_id) };
        let begins = first || ended;

        let mut kinds = Vec::new();
        if begins {
            kinds.push(started(&self.fresh(), 0));
        }
        kinds.extend(item.messages.iter().map(|item| raised(Ledger::name(item))));
        for key in KEYS {
            if self.chance(15) {
                let (key, at) = (key.to_owned(), last + kinds.len() as u64);
                kinds.push(match self.random.u8(0..5) {
                    0 => EventKind::KeyValuesCleared,
                    1 => EventKind::KeyValueCleared { key },
                    _ => EventKind::KeyValueSet { key, value: self.fresh(), last_updated_at_ms: at },
                });
            }
        }
        if self.chance(10) {
            kinds.push(EventKind::CustomStatusUpdated { status: Some(self.fresh()) });
        }
        let mut work = Vec::new();
        while self.chance(35) {
            let (id, data) = (last + kinds.len() as u64 + 1, self.fresh());
            let mut some = |count: usize| (self.random.u8(0..3) == 0).then(|| self.random.usize(0..count));
            let route = Route { tag: some(TAGS.len()), session: some(SESSIONS.len()) };
            work.push(activity(instance, execution, id, &data, route));
            kinds.push(raised(data));
        }
        let mut messages = Vec::new();
        if self.chance(20)
            && let Some(to) = self.ledger.some_instance(&mut self.random)
        {
            messages.push(message(Kind::Raised, &to, &self.fresh(), 0));
        }
        let mut metadata = ExecutionMetadata {
            orchestration_name: begins.then(|| NAME.to_owned()),
            orchestration_version: begins.then(|| VERSION.to_owned()),
            ..ExecutionMetadata::default()
        };
        if self.chance(10) {
            let input = self.fresh();
            messages.push(message(Kind::ContinueAsNew, instance, &input, 0));
            (metadata.status, metadata.output) = (Some("ContinuedAsNew".to_owned()), Some(input.clone()));
            kinds.push(EventKind::OrchestrationContinuedAsNew { input });
        }
        let cancelled: Vec<ScheduledActivityIdentifier> = if self.chance(10) {
            self.ledger.some_activity(instance, &mut self.random).into_iter().collect()
        } else {
            Vec::new()
        };
        Ack { execution, events: numbered(instance, execution, last + 1, kinds), work, messages, metadata, cancelled }
    }

    async fn work(&mut self) {
        let leaves = self.chance(10);
        let lease = if leaves { LEFT } else { LEASE };
        let session = SessionFetchConfig { owner_id: self.name.clone(), lock_timeout: LEFT };
        let fetched = self.provider.fetch_work_item(lease, WAIT, Some(&session), &TagFilter::Any).await;
        let Some((item, token, attempt)) = found(fetched) else { return };
        let outcome = if leaves {
            WorkOutcome::Left
        } else if self.chance(15) {
            let uncounted = self.random.bool();
            let delay = self.random.bool().then_some(Duration::from_millis(5));
            match self.provider.abandon_work_item(&token, delay, uncounted).await {
                Ok(()) => WorkOutcome::Abandoned { uncounted },
                Err(error) => WorkOutcome::refused(&error),
            }
        } else {
            let WorkItem::ActivityExecute { instance, execution_id, id, .. } = &item else { panic!("{item:?}") };
            let completed = WorkItem::ActivityCompleted {
                instance: instance.clone(),
                execution_id: *execution_id,
                id: *id,
                result: self.fresh(),
            };
            match self.provider.ack_work_item(&token, Some(completed.clone())).await {
                Ok(()) => {
                    self.ledger.completed(&item, completed);
                    WorkOutcome::Acked
                }
                Err(error) => WorkOutcome::refused(&error),
            }
        };
        self.ledger.worked(Worked { item, attempt, outcome });
    }

    /// A lease that has surely ended is good for nothing, and its turn changes nothing.
    async fn come_back_late(&mut self) {
        let Some(at) = self.dead.iter().position(|(end, _)| *end < Instant::now()) else { return };
        let (_, token) = self.dead.swap_remove(at);
        let events = numbered("unknown", 1, 1_000, vec![raised("too late".to_owned())]);
        let (none, metadata) = (Vec::new, ExecutionMetadata::default());
        let acked = self.provider.ack_orchestration_item(&token, 1, events, none(), none(), metadata, Vec::new()).await;
        let refused = acked.expect_err("the lease has ended");
        assert!(!refused.is_retryable(), "{refused}");
        let renewed = self.provider.renew_orchestration_item_lock(&token, LEASE).await;
        assert!(!renewed.expect_err("the lease has ended").is_retryable());
    }
}

/// A busy machine may take too long for a short wait: then, as for a runtime, nothing was fetched, and the next fetch
/// finds it.
fn found<T>(fetched: Result<Option<T>, ProviderError>) -> Option<T> {
    fetched.unwrap_or_else(|error| if error.is_retryable() { None } else { panic!("a fetch: {error}") })
}
