//! Commits what a process has finished: turns, activities and messages in one batch.
//!
//! The contract wants one transaction per turn, activity and message. One transaction for all that are finished at the
//! same time satisfies it too, and costs one round trip, one WAL flush and one recorded row instead of one per kind.
//! Each write keeps its own fence and outcome.
//!
//! What is finished often makes work for a slot that waits: activities for a worker, a turn for a dispatcher. Then the
//! same statement claims it: activities if activity slots wait for what the batch schedules, otherwise turns.

use std::sync::Arc;

use reveille_pg::{Schema, Sql};
use reveille_wake::{BatchResult, BatchedWrite, Consumer, RECENT, ScanBounds, Wake, WakeUp, WriteBatch};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row, ValueRef};

use super::finished_turn::{self, FinishedTurn};
use super::message::{Message, millis};
use super::repeated;
use crate::claim::{ActivityClaim, Blocked, Leases, TurnClaim, TurnKey};
use crate::provider::Channels;
use crate::read::{Head, HistoryCache};
use crate::token::ActivityToken;

/// Sends the statement `commit`. A second ack with the same token must fail even if the first answer was lost, and a
/// message must not arrive twice, so outcomes are recorded.
pub(crate) struct Commit {
    pub(crate) wake: Wake,
    pub(crate) channels: Channels,
    pub(crate) blocked: Arc<Blocked>,
    pub(crate) histories: Arc<HistoryCache>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) bounds: Arc<ScanBounds<TurnKey>>,
    pub(crate) turns: Consumer<TurnClaim>,
    pub(crate) activities: Consumer<ActivityClaim>,
    pub(crate) sql: Sql,
    pub(crate) and_claim_turns: Sql,
    pub(crate) and_claim_activities: Sql,
}

/// One write of the batch.
#[derive(Debug, Clone)]
pub(crate) enum CommitWrite {
    Turn(Arc<FinishedTurn>),
    Activity(Arc<FinishedActivity>),
    Message(Arc<Message>),
}

impl CommitWrite {
    /// The instance that it concerns, escaped.
    pub(super) fn instance(&self) -> &str {
        match self {
            CommitWrite::Turn(turn) => &turn.token.instance,
            CommitWrite::Activity(activity) => &activity.token.instance,
            CommitWrite::Message(message) => &message.instance,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            CommitWrite::Turn(turn) => turn.bytes(),
            CommitWrite::Activity(activity) => {
                activity.token.instance.len() + activity.completion.as_ref().map_or(0, Message::bytes)
            }
            CommitWrite::Message(message) => message.bytes(),
        }
    }
}

/// An activity to ack.
#[derive(Debug)]
pub(crate) struct FinishedActivity {
    pub(crate) token: ActivityToken,
    /// The message with the result to the instance, if any.
    pub(crate) completion: Option<Message>,
}

/// The result of a [`CommitWrite`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AckOutcome {
    Applied {
        /// The generation of the instance, if the write is a turn that began an execution.
        generation: Option<i64>,
        /// Messages that waited for the start of the instance are now due.
        messages_due: bool,
    },
    /// The token is not that of the lease: acked before, claimed again, or never valid.
    Gone,
    /// The lease has expired.
    Expired,
    /// The history has an event with such an id.
    Duplicate,
}

impl AckOutcome {
    fn decode(text: &str) -> Option<AckOutcome> {
        let (word, generation) = match text.split_once(' ') {
            Some((word, generation)) => (word, Some(generation.parse().ok()?)),
            None => (text, None),
        };
        match (word, generation) {
            ("ok", generation) => Some(AckOutcome::Applied { generation, messages_due: false }),
            ("ok_messages_due", Some(_)) => Some(AckOutcome::Applied { generation, messages_due: true }),
            ("gone", None) => Some(AckOutcome::Gone),
            ("expired", None) => Some(AckOutcome::Expired),
            ("duplicate", None) => Some(AckOutcome::Duplicate),
            _ => None,
        }
    }

    fn is_applied(self) -> bool {
        matches!(self, AckOutcome::Applied { .. })
    }
}

impl Commit {
    fn extend_history(&self, turn: &FinishedTurn, generation: Option<i64>) {
        let (instance, execution) = (&turn.token.instance, turn.execution);
        // A turn that began no execution does not change the generation. If it has changed since the claim, the next
        // claim notices.
        let generation = generation.or_else(|| self.histories.head(instance).map(|cached| cached.generation));
        if let Some((events, generation)) = turn.events.as_ref().zip(generation) {
            let head = Head { execution, generation, last: events.last };
            self.histories.append(instance, head, &turn.new_history, events.json.len());
        }
    }

    /// The statement, and the two that claim turns or activities as well.
    pub(crate) fn statements(schema: &Schema) -> [Sql; 3] {
        [
            schema.sql(reveille_pg::statement!("commit")),
            schema.sql(reveille_pg::statement!("commit_and_claim_instances")),
            schema.sql(reveille_pg::statement!("commit_and_claim_work")),
        ]
    }
}

impl BatchedWrite for Commit {
    type Write = CommitWrite;
    /// Turns, then activities, then messages: the order of the parts of the statement and of its outcomes.
    type Key = (u8, String);
    type Outcome = AckOutcome;
    const RECORDS_OUTCOMES: bool = true;

    fn key(&self, write: &CommitWrite) -> (u8, String) {
        match write {
            CommitWrite::Turn(turn) => (0, turn.token.instance.clone()),
            // Those of an instance in the order in which they were acked: their locks are not waited for.
            CommitWrite::Activity(activity) => (1, activity.token.instance.clone()),
            // In the order in which they were sent.
            CommitWrite::Message(_) => (2, String::new()),
        }
    }

    fn bytes(&self, write: &CommitWrite) -> usize {
        write.bytes()
    }

    fn wake_ups(&self, write: &CommitWrite, outcome: Option<&AckOutcome>) -> Vec<WakeUp> {
        if outcome.is_some_and(|outcome| !outcome.is_applied()) {
            return Vec::new();
        }
        let orchestrations = &self.channels.orchestrations;
        match write {
            CommitWrite::Turn(turn) => turn.wake_ups(&self.channels),
            CommitWrite::Activity(activity) => activity.completion.iter().map(|_| orchestrations.wake_up()).collect(),
            CommitWrite::Message(message) => vec![orchestrations.wake_up().after(message.due.delay())],
        }
    }

    async fn send(
        &self,
        conn: &mut PgConnection,
        batch: &WriteBatch<'_, CommitWrite>,
    ) -> reveille_pg::Result<BatchResult<Self::Outcome>> {
        if let Some(poll) = batch.attach(&self.activities) {
            let query = bind(batch, &self.and_claim_activities);
            let (query, scan) = poll.claim().bind_in_write(query, &poll);
            let rows = query.fetch_all(conn).await?;
            let (outcomes, rows) = outcomes_and_claims(rows)?;
            let result = batch.result(self, &outcomes)?;
            return Ok(match poll.claim().claimed(poll.request(), scan, &rows) {
                Ok(claimed) => result.with_claims(poll, claimed),
                Err(error) => without_claims(result, &error),
            });
        }
        if let Some(poll) = batch.attach(&self.turns) {
            let query = bind(batch, &self.and_claim_turns);
            let (query, in_write) = poll.claim().bind_in_write(query, &poll);
            let rows = query.fetch_all(&mut *conn).await?;
            let (outcomes, rows) = outcomes_and_claims(rows)?;
            let result = batch.result(self, &outcomes)?;
            return Ok(match poll.claim().read_in_write(in_write, &rows) {
                Ok(claimed) => result.with_claims_later(poll.clone(), TurnClaim::claimed_in_write(poll, claimed)),
                Err(error) => without_claims(result, &error),
            });
        }
        batch.result(self, &bind(batch, &self.sql).fetch_one(conn).await?)
    }

    fn decode(&self, _: &CommitWrite, text: &str) -> Option<AckOutcome> {
        AckOutcome::decode(text)
    }

    /// The events of a turn are appended to the cached history, before any waiter can claim the next turn. And its lease
    /// no longer blocks messages that came during the turn: wakes the waiters of this process if there may be any; other
    /// processes poll when their claims say that the lease ends.
    fn committed(&self, write: &CommitWrite, outcome: &AckOutcome) {
        let CommitWrite::Turn(turn) = write else { return };
        // Whatever the outcome: the lease is over.
        let mut wakes = self.blocked.turn_ended();
        if let AckOutcome::Applied { generation, messages_due } = *outcome {
            self.extend_history(turn, generation);
            // A message that came during a long turn may lie below the scan bound by now, where no poll has seen it.
            let was_long = self.leases.age(turn.token.fence).is_some_and(|age| age > RECENT);
            if was_long {
                self.bounds.forget();
            }
            wakes |= messages_due || was_long;
        }
        if wakes {
            self.wake.wake_local(&[self.channels.orchestrations.wake_up()]);
        }
    }
}

/// The statement with the writes of the batch.
fn bind<'q>(batch: &'q WriteBatch<'_, CommitWrite>, sql: &Sql) -> Query<'q, Postgres, PgArguments> {
    let (mut turns, mut activities, mut messages): (Vec<&FinishedTurn>, Vec<&FinishedActivity>, Vec<&Message>) =
        Default::default();
    for write in &batch.writes {
        match write {
            CommitWrite::Turn(turn) => turns.push(turn),
            CommitWrite::Activity(activity) => activities.push(activity),
            CommitWrite::Message(message) => messages.push(message),
        }
    }
    let tokens = || activities.iter().map(|activity| &activity.token);
    let completions = || activities.iter().map(|activity| activity.completion.as_ref());
    finished_turn::bind(batch.query(sql), &turns)
        // finished_activities
        .bind(tokens().map(|token| token.instance.as_str()).collect::<Vec<_>>())
        .bind(tokens().map(|token| token.id).collect::<Vec<_>>())
        .bind(tokens().map(|token| token.fence).collect::<Vec<_>>())
        .bind(repeated(tokens().map(|token| token.fence)))
        .bind(completions().map(|message| message.map(|it| it.instance.as_str())).collect::<Vec<_>>())
        .bind(completions().map(|message| message.map(|it| it.item.as_str())).collect::<Vec<_>>())
        // messages
        .bind(messages.iter().map(|message| message.instance.as_str()).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| millis(message.due.delay())).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.item.as_str()).collect::<Vec<_>>())
}

/// The row with the outcomes, and those of the claim.
fn outcomes_and_claims(mut rows: Vec<PgRow>) -> reveille_pg::Result<(PgRow, Vec<PgRow>)> {
    let has_outcomes = |row: &PgRow| row.try_get_raw("outcomes").is_ok_and(|outcomes| !outcomes.is_null());
    let at = rows.iter().position(has_outcomes).ok_or(sqlx::Error::RowNotFound)?;
    Ok((rows.remove(at), rows))
}

/// The writes have committed, whatever became of the claim: its leases are given back.
fn without_claims(result: BatchResult<AckOutcome>, error: &reveille_pg::Error) -> BatchResult<AckOutcome> {
    tracing::warn!(%error, "cannot read what a commit has claimed");
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recorded outcome is read exactly; any other text is unknown, not a default.
    #[test]
    fn unknown_outcomes_are_rejected() {
        let applied = |generation, messages_due| Some(AckOutcome::Applied { generation, messages_due });
        assert_eq!(AckOutcome::decode("ok"), applied(None, false));
        assert_eq!(AckOutcome::decode("ok 7"), applied(Some(7), false));
        assert_eq!(AckOutcome::decode("ok_messages_due 7"), applied(Some(7), true));
        assert_eq!(AckOutcome::decode("gone"), Some(AckOutcome::Gone));
        assert_eq!(AckOutcome::decode("expired"), Some(AckOutcome::Expired));
        assert_eq!(AckOutcome::decode("duplicate"), Some(AckOutcome::Duplicate));
        for text in ["", "ok x", "ok ", "ok_messages_due", "gone 7", "OK", "more 7"] {
            assert_eq!(AckOutcome::decode(text), None, "{text:?}");
        }
    }
}
