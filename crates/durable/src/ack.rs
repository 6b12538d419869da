//! Ending what was fetched: acks, abandons, renewals.
//!
//! An error from an ack makes the runtime *fail the user's workflow*, so an ack gives no error for what passes: it goes on until its outcome is
//! known, or until its lease has surely ended, because then whatever the runtime does with the same token is refused as well.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{ExecutionMetadata, ProviderError, ScheduledActivityIdentifier, WorkItem};
use duroxide::{Event, EventKind};
use pg::LogLimit;
use pg::retry::Policy;
use sqlx::postgres::PgRow;
use tokio::time::{Instant, sleep};
use uuid::Uuid;
use wake::Writer;

use crate::history::Head;
use crate::message::{Message, Work, millis};
use crate::observe::Failure;
use crate::provider::PostgresProvider;
use crate::queries::column;
use crate::stored::{self, Execution};
use crate::text::{restored, stored as kept};
use crate::token::{TurnToken, WorkToken};
use crate::turn::packed;
use crate::write::{Abandon, Acked, Done, Ended, Fenced, Finished, GivenUp, KeyChanges};

/// One line for all acks that wait for the database: they fail together, and each every two seconds.
static WARNED: LogLimit = LogLimit::new(Duration::from_secs(1));

/// What a turn did, as the runtime says it.
pub(crate) struct Outcome {
    pub(crate) execution: u64,
    pub(crate) events: Vec<Event>,
    pub(crate) work: Vec<WorkItem>,
    pub(crate) messages: Vec<WorkItem>,
    pub(crate) metadata: ExecutionMetadata,
    pub(crate) cancelled: Vec<ScheduledActivityIdentifier>,
}

impl PostgresProvider {
    pub(crate) async fn ack_turn(&self, lock_token: &str, outcome: Outcome) -> Result<(), Failure> {
        const OPERATION: &str = "ack_orchestration_item";
        let refuse = |why: &str| Err(Failure::own(ProviderError::permanent(OPERATION, why)));
        let Some(token) = TurnToken::parse(lock_token) else { return refuse("Invalid lock token") };
        let ended = Arc::new(Ended::of(OPERATION, token.clone(), &outcome).map_err(Failure::own)?);
        let acked = self.until_known(OPERATION, Finished::Turn(ended.clone()), token.fence).await;
        let inner = &self.inner;
        if acked.is_err() {
            inner.histories.forget(&token.instance);
        }
        inner.leases.ended(token.fence);
        match acked? {
            Acked::Done { generation, .. } => {
                // A turn that began no execution leaves the generation as the claim found it. Should it have changed since, the next
                // claim says so.
                let known = generation.or_else(|| inner.histories.known(&token.instance).map(|known| known.generation));
                if let Some(((_, last, _, json), generation)) = ended.events.as_ref().zip(known) {
                    let head = Head { execution: ended.execution, generation, last: *last };
                    inner.histories.appended(&token.instance, head, &outcome.events, json.len());
                }
                Ok(())
            }
            Acked::Gone => refuse("Invalid lock token: the lease has ended or is somebody else's"),
            Acked::Expired => refuse("the lock has expired"),
            Acked::Duplicate => refuse("the history has an event with such an id already"),
        }
    }

    pub(crate) async fn ack_work(&self, token: &str, completion: Option<&WorkItem>) -> Result<(), Failure> {
        const OPERATION: &str = "ack_work_item";
        let refuse = |why: &str| Err(Failure::own(ProviderError::permanent(OPERATION, why)));
        let Some(token) = WorkToken::parse(token) else { return refuse("Invalid lock token") };
        let completion = match completion {
            Some(item @ (WorkItem::ActivityCompleted { .. } | WorkItem::ActivityFailed { .. })) => {
                Some(Message::new(OPERATION, item, Some(Duration::ZERO)).map_err(Failure::own)?)
            }
            Some(_) => return refuse("an activity can only be completed or failed"),
            None => None,
        };
        let done = Arc::new(Done { token: token.clone(), completion });
        let acked = self.until_known(OPERATION, Finished::Work(done), token.fence).await;
        self.inner.leases.ended(token.fence);
        match acked? {
            Acked::Done { .. } => Ok(()),
            Acked::Expired => refuse("the lock has expired"),
            Acked::Gone | Acked::Duplicate => {
                refuse("the activity was cancelled, or its lease has ended and is somebody else's")
            }
        }
    }

    pub(crate) async fn abandon_turn(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        uncounted: bool,
    ) -> Result<(), ProviderError> {
        let given_up = TurnToken::parse(lock_token).map(|token| (token.fence, GivenUp::turn(token, delay, uncounted)));
        self.abandon("abandon_orchestration_item", &self.inner.abandons, given_up).await
    }

    pub(crate) async fn abandon_work(
        &self,
        token: &str,
        delay: Option<Duration>,
        uncounted: bool,
    ) -> Result<(), ProviderError> {
        let given_up = WorkToken::parse(token).map(|token| (token.fence, GivenUp::work(token, delay, uncounted)));
        self.abandon("abandon_work_item", &self.inner.work_abandons, given_up).await
    }

    /// Gives up a lease; `None` for what is no token.
    async fn abandon(
        &self,
        operation: &'static str,
        writer: &Writer<Abandon>,
        given_up: Option<(Uuid, GivenUp)>,
    ) -> Result<(), ProviderError> {
        let refused = || ProviderError::permanent(operation, "Invalid lock token, or already acked");
        let (fence, given_up) = given_up.ok_or_else(refused)?;
        let submitted = writer.submit(given_up).await;
        self.inner.writes();
        self.inner.leases.ended(fence);
        match submitted.map_err(|error| crate::error::engine(operation, &error))? {
            Fenced::Done => Ok(()),
            Fenced::Gone | Fenced::Expired => Err(refused()),
        }
    }

    pub(crate) async fn renew_turn(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
        const OPERATION: &str = "renew_orchestration_item_lock";
        let refused = || ProviderError::permanent(OPERATION, "the lock token is invalid, expired or acked");
        let token = TurnToken::parse(token).ok_or_else(refused)?;
        let rows = self
            .rows(OPERATION, &self.inner.queries.renew_instance, |query| {
                query.bind(token.instance.clone()).bind(token.fence).bind(millis(extend_for))
            })
            .await?;
        self.renewed(OPERATION, &rows, token.fence, extend_for, refused)
    }

    pub(crate) async fn renew_work(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
        const OPERATION: &str = "renew_work_item_lock";
        let refused = || ProviderError::permanent(OPERATION, "the activity was cancelled or its lock has expired");
        let token = WorkToken::parse(token).ok_or_else(refused)?;
        let rows = self
            .rows(OPERATION, &self.inner.queries.renew_work, |query| {
                query.bind(token.instance.clone()).bind(token.id).bind(token.fence).bind(millis(extend_for))
            })
            .await?;
        self.renewed(OPERATION, &rows, token.fence, extend_for, refused)
    }

    fn renewed(
        &self,
        operation: &'static str,
        rows: &[PgRow],
        fence: Uuid,
        lease: Duration,
        refused: impl Fn() -> ProviderError,
    ) -> Result<(), ProviderError> {
        let renewed = rows.first().map_or(Ok(0), |row| column::<i64>(operation, row, 0))?;
        if renewed == 0 {
            return Err(refused());
        }
        self.inner.leases.granted(fence, lease, Instant::now());
        Ok(())
    }

    /// Commits something finished until its outcome is known, or its lease has surely ended.
    ///
    /// One whose outcome could not be learnt is sent again: if it had happened, its token is gone by now, and so is whatever the runtime might
    /// do with it.
    async fn until_known(&self, operation: &'static str, finished: Finished, fence: Uuid) -> Result<Acked, Failure> {
        self.inner.writes();
        let over = || self.inner.leases.has_surely_ended(fence);
        let acked = until(operation, over, || self.inner.commits.submit(finished.clone())).await;
        if acked.is_ok() {
            self.inner.writes();
        }
        acked.map_err(|error| {
            let mut failure = Failure::engine(operation, &error);
            // What passes is permanent to the runtime by now: with this token nothing can be done any more.
            failure.error.retryable = false;
            failure
        })
    }
}

/// Tries until it succeeds or fails for good, and whatever passes until it is `over`, with pauses: an attempt may fail at once.
async fn until<T, F: Future<Output = wake::Result<T>>>(
    operation: &'static str,
    over: impl Fn() -> bool,
    attempt: impl Fn() -> F,
) -> wake::Result<T> {
    let mut backoff = Policy::default().backoff();
    loop {
        match attempt().await {
            Err(error) if error.is_transient() && !over() => {
                if let Some(left_out) = WARNED.permit() {
                    let error = pg::causes(&error);
                    tracing::warn!(operation, %error, left_out, "not acked yet; trying until its lease has ended");
                }
                sleep(backoff.pause()).await;
            }
            ended => return ended,
        }
    }
}

impl Ended {
    /// # Errors
    /// Says what cannot be stored; nothing was changed.
    fn of(operation: &'static str, token: TurnToken, outcome: &Outcome) -> Result<Ended, ProviderError> {
        let text = |text: &Option<String>| text.as_deref().map(|text| kept(text).into_owned());
        let metadata = &outcome.metadata;
        let cancelled: HashSet<(&str, u64, u64)> = outcome
            .cancelled
            .iter()
            .map(|activity| (activity.instance.as_str(), activity.execution_id, activity.activity_id))
            .collect();
        let is_cancelled = |item: &WorkItem| match item {
            WorkItem::ActivityExecute { instance, execution_id, id, .. } => {
                cancelled.contains(&(instance.as_str(), *execution_id, *id))
            }
            _ => false,
        };
        let custom_status = outcome.events.iter().rev().find_map(|event| match &event.kind {
            EventKind::CustomStatusUpdated { status } => Some(text(status)),
            _ => None,
        });
        let work = outcome.work.iter().filter(|item| !is_cancelled(item));
        let instance = restored(token.instance.clone());
        let of = Execution { instance: &instance, execution: outcome.execution };
        Ok(Ended {
            token,
            execution: outcome.execution as i64,
            events: batch(operation, &of, &outcome.events)?,
            name: text(&metadata.orchestration_name),
            version: text(&metadata.orchestration_version),
            parent: text(&metadata.parent_instance_id),
            pinned: metadata.pinned_duroxide_version.as_ref().map(packed),
            status: text(&metadata.status),
            output: text(&metadata.output),
            custom_status,
            work: work.map(|item| Work::new(operation, item)).collect::<Result<_, _>>()?,
            cancelled: outcome
                .cancelled
                .iter()
                .map(|it| (kept(&it.instance).into_owned(), it.execution_id as i64, it.activity_id as i64))
                .collect(),
            messages: outcome
                .messages
                .iter()
                .map(|item| Message::new(operation, item, None))
                .collect::<Result<_, _>>()?,
            keys: KeyChanges::of(&outcome.events),
            sent: false.into(),
        })
    }
}

/// Events as one row: the first id, the last, how many, and their JSON. `None` for no events.
///
/// # Errors
/// If an id is missing, or they are not in order: the runtime numbers them, and they are stored as they come.
pub(crate) fn batch(
    operation: &'static str,
    of: &Execution<'_>,
    events: &[Event],
) -> Result<Option<(i64, i64, i32, String)>, ProviderError> {
    let (Some(first), Some(last)) = (events.first(), events.last()) else { return Ok(None) };
    if first.event_id == 0 {
        return Err(ProviderError::permanent(operation, "an event has no id: the runtime must set it"));
    }
    if !events.is_sorted_by(|one, next| one.event_id < next.event_id) {
        return Err(ProviderError::permanent(operation, "the ids of the events are not in order, or not different"));
    }
    let json = stored::write(events, of)
        .map_err(|error| ProviderError::permanent(operation, format!("an event cannot be written as JSON: {error}")))?;
    Ok(Some((first.event_id as i64, last.event_id as i64, events.len() as i32, json)))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::Instant;

    use super::*;

    /// An ack whose attempts fail at once goes on until its lease has ended, and does not spin meanwhile.
    #[tokio::test(start_paused = true)]
    async fn an_ack_that_fails_at_once_pauses_until_its_lease_has_ended() {
        const LEASE: Duration = Duration::from_secs(60);
        let (since, attempts) = (Instant::now(), Cell::new(0));
        let attempt = async || {
            attempts.set(attempts.get() + 1);
            assert!(attempts.get() < 1_000, "no pauses");
            Err::<(), _>(wake::Error::Full { consumer: "commit".into(), limit: 1 })
        };
        let ended = until("op", || since.elapsed() >= LEASE, attempt).await;
        assert!(ended.is_err_and(|error| error.is_transient()));
        assert!(since.elapsed() >= LEASE && attempts.get() > 10, "{} attempts", attempts.get());
    }

    /// What fails for good is not tried again.
    #[tokio::test(start_paused = true)]
    async fn an_ack_that_is_refused_is_not_sent_again() {
        let attempts = Cell::new(0);
        let attempt = async || {
            attempts.set(attempts.get() + 1);
            Err::<(), _>(wake::Error::Closed { what: "commit".into() })
        };
        assert!(until("op", || false, attempt).await.is_err());
        assert_eq!(attempts.get(), 1);
    }

    fn event(id: u64) -> Event {
        Event::with_event_id(id, "i", 1, None, EventKind::KeyValuesCleared)
    }

    /// Ids are the runtime's, and in order: anything else is a mistake that must change nothing.
    #[test]
    fn events_are_numbered_in_order() {
        let of = Execution { instance: "i", execution: 1 };
        assert_eq!(batch("op", &of, &[]).expect("none"), None);
        let (first, last, count, json) = batch("op", &of, &[event(2), event(5)]).expect("in order").expect("some");
        assert_eq!((first, last, count), (2, 5, 2));
        assert_eq!(stored::read(&json, &of).expect("events").len(), 2);
        for wrong in [[0, 1], [3, 3], [4, 2]] {
            let events = wrong.map(event);
            assert!(!batch("op", &of, &events).expect_err("out of order").is_retryable());
        }
    }
}
