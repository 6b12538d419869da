//! Taking a step: the queues, leases, sessions and time.

use std::time::Duration;

use duroxide::providers::{
    DispatcherCapabilityFilter, ProviderAdmin, SemverRange, SessionFetchConfig, TagFilter, WorkItem,
};
use semver::Version;

use super::answers::SeenTurn;
use super::leases::{LeaseState, Token};
use super::pair::{DELAY, LONG, PASS_LONG, PASS_SHORT, Pair, SHORT, Side, Taken, Verdict, agree};
use super::payload::{activity, input, message, numbered, raised, started};
use super::step::{INSTANCES, Kind, OWNERS, Pick, Queue, Report, Route, Step, TAGS, Tags, Versions};

/// A session that did nothing for this long is idle.
const IDLE_SOON: Duration = Duration::from_secs(120);

impl Pair<'_> {
    pub(super) async fn take(&mut self, step: &Step) -> Verdict {
        self.tick();
        match step {
            Step::Nothing => Ok(()),
            Step::Send { to, kind, delayed } => self.send(INSTANCES[*to], *kind, *delayed).await,
            Step::SendWork { of, route } => self.send_work(INSTANCES[*of], *route).await,
            Step::FetchTurn { versions, long } => self.fetch_turn(*versions, *long).await.map(drop),
            Step::AckTurn { lease, turn } => self.ack_turn(*lease, turn).await,
            Step::FetchWork { owner, tags, long } => self.fetch_work(*owner, *tags, *long).await.map(drop),
            Step::AckWork { lease, report } => self.ack_work(*lease, *report).await,
            Step::Abandon { queue, lease, delayed, uncounted } => {
                self.abandon(*queue, *lease, *delayed, *uncounted).await
            }
            Step::Renew { queue, lease, long } => self.renew(*queue, *lease, *long).await,
            Step::RenewSessions { owners, long, idle } => self.renew_sessions(owners, *long, *idle).await,
            Step::CleanSessions => {
                let clean = async |side: Side<'_>| side.store.cleanup_orphaned_sessions(IDLE_SOON).await;
                self.same("cleanup_orphaned_sessions", clean).await.map(drop)
            }
            Step::Append { to, earlier, events, clash } => self.append(INSTANCES[*to], *earlier, *events, *clash).await,
            Step::Pass { long } => {
                self.pass(if *long { PASS_LONG } else { PASS_SHORT }).await;
                self.lapse().await;
                Ok(())
            }
            Step::Lapse { queue, lease, delayed, uncounted } => {
                self.pass(PASS_SHORT).await;
                self.abandon(*queue, *lease, *delayed, *uncounted).await?;
                self.lapse().await;
                Ok(())
            }
            Step::Query(query) => self.query(*query).await,
            Step::Remove(remove) => self.remove(remove).await,
        }
    }

    /// A message to an instance that has not been started waits for a start, which is another test: here the start
    /// comes first.
    async fn send(&mut self, to: &'static str, kind: Kind, delayed: bool) -> Verdict {
        if !self.awaited(to).await {
            self.send_one(to, Kind::Start, None).await?;
            self.starting.insert(to.to_owned());
        }
        if delayed {
            self.delayed.insert(to.to_owned());
        }
        self.send_one(to, kind, delayed.then_some(DELAY)).await
    }

    async fn send_one(&mut self, to: &str, kind: Kind, delay: Option<Duration>) -> Verdict {
        // A timer that is sent by itself fires at once: it is in an ack that the contract gives it a time.
        let item = message(kind, to, &self.fresh(), 1);
        let sent = self.same("enqueue_for_orchestrator", async |side| {
            side.store.enqueue_for_orchestrator(item.clone(), delay).await
        });
        sent.await.map(drop)
    }

    async fn send_work(&mut self, of: &str, route: Route) -> Verdict {
        let item = activity(of, 1, 7, &self.fresh(), route);
        self.activities.push((of.to_owned(), 1, 7));
        let wrong = message(Kind::Raised, of, "x", 0);
        self.same("enqueue_for_worker", async |side| side.store.enqueue_for_worker(item.clone()).await).await?;
        self.same("enqueue_for_worker", async |side| side.store.enqueue_for_worker(wrong.clone()).await).await.map(drop)
    }

    /// Whether there was one.
    pub(super) async fn fetch_turn(&mut self, versions: Versions, long: bool) -> Verdict<bool> {
        let range = |min, max| vec![SemverRange::new(Version::new(min, 0, 0), Version::new(max, 9, 9))];
        let filter = match versions {
            Versions::Any => None,
            Versions::UpTo(max) => Some(range(0, max)),
            Versions::From(min) => Some(range(min, 9)),
            Versions::Nothing => Some(Vec::new()),
        };
        let filter =
            filter.map(|supported_duroxide_versions| DispatcherCapabilityFilter { supported_duroxide_versions });
        let lease = self.lease(long, 0);
        let [postgres, memory] = self
            .both(async |side| side.store.fetch_orchestration_item(lease, Duration::ZERO, filter.as_ref()).await)
            .await
            .map(|fetched| fetched.expect("a fetch").unzip3());
        let seen = |(item, attempt)| SeenTurn::new(item, attempt, |instance| self.delayed.contains(instance));
        let (postgres_turn, postgres_token) = postgres;
        let (memory_turn, memory_token) = memory;
        let turn = agree("fetch_orchestration_item", postgres_turn.map(seen), memory_turn.map(seen))?;
        let (Some(turn), Some(one), Some(two)) = (turn, postgres_token, memory_token) else { return Ok(false) };
        let taken = Taken { instance: turn.instance, execution: turn.execution };
        let instance = taken.instance.clone();
        self.turns
            .granted(Token([one, two]), taken, self.passed..self.passed + lease, |held| held.instance == instance);
        Ok(true)
    }

    /// Whether there was one.
    pub(super) async fn fetch_work(&mut self, owner: Option<usize>, tags: Tags, long: bool) -> Verdict<bool> {
        let lease = self.lease(long, owner.map_or(0, |owner| owner + 1));
        let session = owner.map(|owner| SessionFetchConfig { owner_id: OWNERS[owner].to_owned(), lock_timeout: lease });
        let tags = match tags {
            Tags::Default => TagFilter::default_only(),
            Tags::One(tag) => TagFilter::tags([TAGS[tag]]),
            Tags::DefaultAnd(tag) => TagFilter::default_and([TAGS[tag]]),
            Tags::Any => TagFilter::any(),
            Tags::Nothing => TagFilter::none(),
        };
        let [(one, one_token), (two, two_token)] = self
            .both(async |side| side.store.fetch_work_item(lease, Duration::ZERO, session.as_ref(), &tags).await)
            .await
            .map(|fetched| fetched.expect("a fetch").unzip3());
        let work = agree("fetch_work_item", one, two)?;
        let (Some((item, _)), Some(one), Some(two)) = (work, one_token, two_token) else { return Ok(false) };
        let which = input(&item).to_owned();
        self.work.granted(Token([one, two]), item, self.passed..self.passed + lease, |held| input(held) == which);
        Ok(true)
    }

    async fn ack_work(&mut self, lease: Pick, report: Report) -> Verdict {
        let Some((token, at)) = Self::token(&self.work, &self.turns, lease) else { return Ok(()) };
        let instance = match at.map(|at| &self.work.0[at].of) {
            Some(WorkItem::ActivityExecute { instance, .. }) => instance.clone(),
            _ => INSTANCES[0].to_owned(),
        };
        // Without a receiver it would wait for a start.
        let report = if self.awaited(&instance).await { report } else { Report::Nothing };
        let kind = match report {
            Report::Nothing => None,
            Report::Completed => Some(Kind::Completed),
            Report::Failed => Some(Kind::Failed),
            Report::Raised => Some(Kind::Raised),
        };
        let data = self.fresh();
        let completion = kind.map(|kind| message(kind, &instance, &data, 0));
        let acked = self
            .same("ack_work_item", async |side| side.store.ack_work_item(side.token(&token), completion.clone()).await)
            .await?;
        if let (Some(()), Some(at)) = (acked, at) {
            self.work.0[at].state = LeaseState::Over;
        }
        Ok(())
    }

    async fn abandon(&mut self, queue: Queue, lease: Pick, delayed: bool, uncounted: bool) -> Verdict {
        let found = match queue {
            Queue::Turns => Self::token(&self.turns, &self.work, lease),
            Queue::Work => Self::token(&self.work, &self.turns, lease),
        };
        let Some((token, at)) = found else { return Ok(()) };
        let (state, instance) = match (queue, at) {
            (_, None) => (LeaseState::Over, None),
            (Queue::Turns, Some(at)) => (self.turns.0[at].state, Some(self.turns.0[at].of.instance.clone())),
            (Queue::Work, Some(at)) => (self.work.0[at].state, None),
        };
        if state == LeaseState::Lapsed {
            // The model has applied it already.
            return Ok(());
        }
        // A start that is put off would leave other messages waiting for it.
        let delayed = delayed
            && match &instance {
                Some(instance) => self.exists(instance).await,
                None => true,
            };
        let delay = delayed.then_some(DELAY);
        let abandoned = match queue {
            Queue::Turns => {
                self.same("abandon_orchestration_item", async |side| {
                    side.store.abandon_orchestration_item(side.token(&token), delay, uncounted).await
                })
                .await?
            }
            Queue::Work => {
                self.same("abandon_work_item", async |side| {
                    side.store.abandon_work_item(side.token(&token), delay, uncounted).await
                })
                .await?
            }
        };
        if abandoned.is_some()
            && let Some(at) = at
        {
            match queue {
                Queue::Turns => self.turns.0[at].state = LeaseState::Over,
                Queue::Work => self.work.0[at].state = LeaseState::Over,
            }
            self.delayed.extend(instance.filter(|_| delayed));
        }
        Ok(())
    }

    async fn renew(&mut self, queue: Queue, lease: Pick, long: bool) -> Verdict {
        let by = if long { LONG } else { SHORT };
        match queue {
            Queue::Turns => {
                let Some((token, at)) = Self::token(&self.turns, &self.work, lease) else { return Ok(()) };
                let renew =
                    async |side: Side<'_>| side.store.renew_orchestration_item_lock(side.token(&token), by).await;
                if let (Some(()), Some(at)) = (self.same("renew_orchestration_item_lock", renew).await?, at) {
                    self.turns.renewed(at, self.passed + by);
                }
            }
            Queue::Work => {
                let Some((token, at)) = Self::token(&self.work, &self.turns, lease) else { return Ok(()) };
                let renew = async |side: Side<'_>| side.store.renew_work_item_lock(side.token(&token), by).await;
                if let (Some(()), Some(at)) = (self.same("renew_work_item_lock", renew).await?, at) {
                    self.work.renewed(at, self.passed + by);
                }
            }
        }
        Ok(())
    }

    async fn renew_sessions(&mut self, owners: &[usize], long: bool, idle: bool) -> Verdict {
        let owners: Vec<&str> = owners.iter().map(|owner| OWNERS[*owner]).collect();
        let (by, idle) = (if long { LONG } else { SHORT }, if idle { IDLE_SOON } else { LONG * 100 });
        self.same("renew_session_lock", async |side| side.store.renew_session_lock(&owners, by, idle).await)
            .await
            .map(drop)
    }

    /// Appends to an execution that exists: what has no execution cannot be listed or counted.
    async fn append(&mut self, to: &str, earlier: bool, events: usize, clash: bool) -> Verdict {
        let executions = self.memory.list_executions(to).await.expect("memory lists");
        let Some(execution) = (if earlier { executions.first() } else { executions.last() }).copied() else {
            return Ok(());
        };
        let last = self.last_event(to, execution).await;
        let mut kinds: Vec<_> = (0..events).map(|_| raised(self.fresh())).collect();
        if last == 0 && !kinds.is_empty() {
            kinds[0] = started("appended", 0);
        }
        let events = numbered(to, execution, if clash { last.max(1) } else { last + 1 }, kinds);
        let appended = self.same("append_with_execution", async |side| {
            side.store.append_with_execution(to, execution, events.clone()).await
        });
        appended.await.map(drop)
    }
}

/// A fetched item and its attempt apart from its token.
trait Unzip<T> {
    fn unzip3(self) -> (Option<(T, u32)>, Option<String>);
}

impl<T> Unzip<T> for Option<(T, String, u32)> {
    fn unzip3(self) -> (Option<(T, u32)>, Option<String>) {
        self.map(|(item, token, attempt)| ((item, attempt), token)).unzip()
    }
}
