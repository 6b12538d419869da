//! The transitions of a task and its steps, and continuing from one of them.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::serde::rfc3339;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::flow::Flow;
use crate::query::history::{AttemptRow, StepRow, TaskRow, history};
use crate::query::task::part_name;
use crate::task::state::{StepState, TaskState};
use crate::task::stored::{attempt_outcome, step_state, task_state, unknown};

/// How much earlier than a known transition a new one may be dated: the longest duration of a transaction.
const OVERLAP: Duration = Duration::seconds(10);

/// A change of the public state of a task or a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct Transition {
    /// Identifies the transition. Ids increase and are stable; send one to continue after it.
    #[cfg_attr(feature = "http", schema(value_type = String))]
    pub id: TransitionId,
    /// The task.
    #[cfg_attr(feature = "http", schema(value_type = String, format = "uuid"))]
    pub task_uuid: Uuid,
    /// The step; none for a transition of the task.
    pub step: Option<String>,
    /// The state before; none when it was created.
    pub from: Option<&'static str>,
    /// The state after.
    pub to: &'static str,
    /// The time of the transition.
    #[serde(with = "rfc3339")]
    #[cfg_attr(feature = "http", schema(value_type = String, format = DateTime))]
    pub at: OffsetDateTime,
    /// The attempt that caused it.
    pub attempt: Option<u32>,
    /// The worker of the attempt.
    pub worker: Option<String>,
}

/// The id of a transition of a task. Ids are ordered by time, and by cause and effect within one time.
///
/// It also holds the number of transitions known up to it, so that one that becomes visible later, although it is dated
/// earlier, is not missed. This number does not take part in comparisons.
#[derive(Debug, Clone, Copy)]
pub struct TransitionId {
    pub(crate) micros: i64,
    phase: u8,
    /// Zero for the task, otherwise the ordinal of the step plus one.
    pub(crate) index: u32,
    /// The number among the transitions of the same task or step.
    turn: u32,
    /// The number of transitions known up to this one.
    pub(crate) nth: u32,
}

impl TransitionId {
    /// The id after `last`, never before it.
    pub(crate) fn next(last: Option<TransitionId>, time: OffsetDateTime, phase: u8, index: u32) -> TransitionId {
        let micros = (time.unix_timestamp_nanos() / 1_000) as i64;
        match last {
            Some(last) if micros <= last.micros => {
                TransitionId { phase: phase.max(last.phase), turn: last.turn + 1, ..last }
            }
            _ => TransitionId { micros, phase, index, turn: last.map_or(0, |last| last.turn + 1), nth: 0 },
        }
    }

    pub(crate) fn time(&self) -> OffsetDateTime {
        let nanos = i128::from(self.micros) * 1_000;
        OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }

    fn order(&self) -> (i64, u8, u32, u32) {
        (self.micros, self.phase, self.index, self.turn)
    }
}

impl PartialEq for TransitionId {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for TransitionId {}

impl PartialOrd for TransitionId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TransitionId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

/// The text is not the id of a transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the id of a transition")]
pub struct InvalidTransitionId;

impl fmt::Display for TransitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TransitionId { micros, phase, index, turn, nth } = self;
        write!(f, "{micros}-{phase}-{index}-{turn}-{nth}")
    }
}

impl FromStr for TransitionId {
    type Err = InvalidTransitionId;

    fn from_str(text: &str) -> Result<TransitionId, InvalidTransitionId> {
        let [micros, phase, index, turn, nth] = text.split('-').collect::<Vec<_>>()[..] else {
            return Err(InvalidTransitionId);
        };
        let number = |text: &str| text.parse().map_err(|_| InvalidTransitionId);
        Ok(TransitionId {
            micros: micros.parse().map_err(|_| InvalidTransitionId)?,
            phase: phase.parse().map_err(|_| InvalidTransitionId)?,
            index: number(index)?,
            turn: number(turn)?,
            nth: number(nth)?,
        })
    }
}

impl Serialize for TransitionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The state of a task or a step.
pub(crate) enum Subject {
    Task(TaskState),
    Step(StepState),
}

impl From<TaskState> for Subject {
    fn from(state: TaskState) -> Self {
        Subject::Task(state)
    }
}

impl From<StepState> for Subject {
    fn from(state: StepState) -> Self {
        Subject::Step(state)
    }
}

impl Subject {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Subject::Task(state) => state.name(),
            Subject::Step(state) => state.name(),
        }
    }

    /// The order within one time: ended steps, their effect on the task, steps that become ready, steps that start.
    /// `first`: the step was created with its task.
    pub(crate) fn phase(&self, first: bool) -> u8 {
        match self {
            Subject::Task(TaskState::Pending | TaskState::Initializing) => 0,
            Subject::Step(StepState::Pending) if first => 1,
            Subject::Task(TaskState::EvaluatingResults) => 3,
            Subject::Task(TaskState::StepsInProcess) => 7,
            Subject::Task(_) => 4,
            Subject::Step(StepState::Pending | StepState::Enqueued) => 5,
            Subject::Step(StepState::InProgress) => 6,
            Subject::Step(_) => 2,
        }
    }
}

/// The transitions of a task known at one time.
#[derive(Debug)]
pub(crate) struct TaskHistory {
    pub(crate) moves: Vec<Transition>,
    /// The task has ended.
    pub(crate) over: bool,
    /// When the next transition happens without a write.
    pub(crate) next: Option<Duration>,
}

impl TaskHistory {
    /// Builds it from the rows of `task_history`. `None`: there is no such task.
    pub(crate) fn read(task: Uuid, rows: &[PgRow]) -> sqlx::Result<Option<TaskHistory>> {
        let Some(head) = rows.first() else { return Ok(None) };
        let row = TaskRow {
            id: task,
            ended: stored(head, "task_state", "task state", task_state)?,
            created_at: head.try_get("created_at")?,
            ended_at: head.try_get("task_ended_at")?,
            read_at: head.try_get("read_at")?,
        };
        let mut steps: Vec<StepRow> = Vec::new();
        for row in rows {
            let Some(ordinal) = row.try_get("ordinal")? else { continue };
            if steps.last().is_none_or(|step| step.ordinal != ordinal) {
                steps.push(step(row, ordinal)?);
            }
            if let (Some(fence), Some(step)) = (row.try_get("fence")?, steps.last_mut()) {
                step.attempts.push(attempt(row, fence)?);
            }
        }
        let due = steps.iter().filter(|step| step.state == StepState::WaitingForRetry).filter_map(|step| step.due_at);
        let next = due.filter(|due| *due > row.read_at).min().map(|due| due - row.read_at);
        Ok(Some(TaskHistory { moves: history(&row, &steps), over: row.ended.is_some(), next }))
    }

    /// The transitions after one. If an earlier-dated one became visible since, those shortly before it are repeated.
    pub(crate) fn after(&self, seen: Option<&TransitionId>) -> &[Transition] {
        let Some(seen) = seen else { return &self.moves };
        let known = self.moves.partition_point(|one| one.id <= *seen);
        if known <= seen.nth as usize {
            return &self.moves[known..];
        }
        let from = seen.micros - OVERLAP.whole_microseconds() as i64;
        &self.moves[self.moves.partition_point(|one| one.id.micros < from)..]
    }
}

fn step(row: &PgRow, ordinal: i32) -> sqlx::Result<StepRow> {
    Ok(StepRow {
        ordinal,
        name: part_name(row.try_get("name")?, row.try_get("part")?),
        spared: row.try_get("spared")?,
        state: stored(row, "state", "step state", step_state)?,
        came_at: row.try_get("came_at")?,
        ready_at: row.try_get("ready_at")?,
        since: row.try_get("since")?,
        due_at: row.try_get("due_at")?,
        attempt: row.try_get("attempt")?,
        worker: row.try_get("worker")?,
        attempts: Vec::new(),
    })
}

fn attempt(row: &PgRow, fence: i64) -> sqlx::Result<AttemptRow> {
    Ok(AttemptRow {
        outcome: stored(row, "outcome", "attempt outcome", attempt_outcome)?,
        fence,
        attempt: row.try_get("tried")?,
        worker: row.try_get("who")?,
        ready_at: row.try_get("was_ready_at")?,
        claimed_at: row.try_get("claimed_at")?,
        ended_at: row.try_get("ended_at")?,
        silent: row.try_get("silent")?,
    })
}

fn stored<T>(row: &PgRow, column: &str, what: &str, decode: fn(&str) -> Option<T>) -> sqlx::Result<T> {
    let word: &str = row.try_get(column)?;
    decode(word).ok_or_else(|| unknown(what, word))
}

/// The most transitions of a page.
const TRANSITIONS_MAX: usize = 1_000;

/// A page of transitions, in order.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "http", schema(as = Transitions))]
pub struct TransitionPage {
    /// The transitions of this page.
    pub transitions: Vec<Transition>,
    /// The `after` of the next page; none if there are no more so far.
    #[cfg_attr(feature = "http", schema(value_type = Option<String>))]
    pub next: Option<TransitionId>,
}

impl Flow {
    /// A page of the transitions of a task and its steps after one (`None`: from the first). `None`: there is no such
    /// task.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a limit not between 1 and 1 000; otherwise a database error.
    pub async fn transitions_after(
        &self,
        task: Uuid,
        after: Option<&TransitionId>,
        limit: usize,
    ) -> Result<Option<TransitionPage>> {
        if !(1..=TRANSITIONS_MAX).contains(&limit) {
            return Err(Error::invalid("limit", format!("must be between 1 and {TRANSITIONS_MAX}, got {limit}")));
        }
        let Some(known) = self.known(task).await? else { return Ok(None) };
        let rest = known.after(after);
        let transitions = rest[..rest.len().min(limit)].to_vec();
        let next = transitions.last().filter(|_| rest.len() > limit).map(|last| last.id);
        Ok(Some(TransitionPage { transitions, next }))
    }

    /// All transitions of a task and its steps, in order. `None`: there is no such task.
    ///
    /// # Errors
    /// A database error.
    pub async fn transitions(&self, task: Uuid) -> Result<Option<Vec<Transition>>> {
        Ok(self.known(task).await?.map(|known| known.moves))
    }

    async fn known(&self, task: Uuid) -> Result<Option<TaskHistory>> {
        let query = || sqlx::query(&self.inner.sql.task_history).bind(task);
        let rows = self.inner.db.ask("read a history", query).await?;
        Ok(TaskHistory::read(task, &rows)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(times: &[i64]) -> TaskHistory {
        let mut moves = Vec::new();
        for (index, seconds) in times.iter().enumerate() {
            let time = OffsetDateTime::UNIX_EPOCH + Duration::seconds(*seconds);
            let mut id = TransitionId::next(None, time, 0, index as u32);
            id.nth = index as u32 + 1;
            let (task_uuid, at) = (Uuid::nil(), id.time());
            moves.push(Transition { id, task_uuid, step: None, from: None, to: "x", at, attempt: None, worker: None });
        }
        TaskHistory { moves, over: false, next: None }
    }

    /// Continuing from a transition returns those after it. A transition that became visible later is included, and
    /// those shortly before may be repeated.
    #[test]
    fn continuing_misses_no_transition() {
        let before = known(&[100, 200, 300]);
        assert_eq!(before.after(None).len(), 3);
        let seen = before.moves[1].id;
        assert_eq!(before.after(Some(&seen)), &before.moves[2..]);
        assert!(before.after(Some(&before.moves[2].id)).is_empty());
        let mut late = known(&[100, 195, 200, 300]);
        for (one, like) in [(0, 0), (2, 1), (3, 2)] {
            late.moves[one].id.index = before.moves[like].id.index;
        }
        assert_eq!(late.after(Some(&seen)), &late.moves[1..], "includes the late one, and not the old one");
    }

    /// An id survives a round trip, and other texts are rejected.
    #[test]
    fn ids_survive_a_round_trip() {
        let first = TransitionId::next(None, OffsetDateTime::UNIX_EPOCH, 3, 4);
        let second = TransitionId::next(Some(first), OffsetDateTime::UNIX_EPOCH, 1, 4);
        assert!(first < second, "never before the one before it");
        assert_eq!(second.to_string().parse(), Ok(second));
        for wrong in ["", "1", "1-2-3-4", "1-2-3-4-x", "1-2-3-4-5-6", "-1-2-3-4-5"] {
            assert_eq!(wrong.parse::<TransitionId>(), Err(InvalidTransitionId), "{wrong}");
        }
    }
}
