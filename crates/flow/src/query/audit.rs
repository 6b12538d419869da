//! Who tried a step, when, in how long, and with what outcome.

use serde::Serialize;
use serde_json::value::RawValue;
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use time::serde::rfc3339;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::flow::Flow;
use crate::query::task::json;
use crate::response_size::ANSWER_BYTES_MAX;

/// Attempts that one answer has at most.
const ATTEMPT_PAGE_MAX: usize = 1_000;

/// Some attempts at a step, in order.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Audit)]
pub struct AttemptPage {
    /// These.
    pub attempts: Vec<Attempt>,
    /// What to present as `after` for the next page; none: there are no more.
    pub next: Option<u64>,
}

/// An attempt at a step, or what a person did to it.
#[derive(Debug, Serialize, ToSchema)]
pub struct Attempt {
    /// Which attempt, from 1; one that is not charged has the number of the next.
    pub attempt: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// Who.
    pub worker: Option<String>,
    /// When the step could be claimed.
    #[serde(with = "rfc3339::option")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ready_at: Option<OffsetDateTime>,
    /// When it was.
    #[serde(with = "rfc3339::option")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub claimed_at: Option<OffsetDateTime>,
    /// When it ended.
    #[serde(with = "rfc3339::option")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<OffsetDateTime>,
    /// From being ready to being claimed.
    pub waited_ms: Option<u64>,
    /// From being claimed to the end.
    pub duration_ms: Option<u64>,
    /// Why a person did it.
    pub reason: Option<String>,
    /// What came of it.
    #[schema(value_type = Option<Value>)]
    pub result: Option<Box<RawValue>>,
    /// Why it failed.
    #[schema(value_type = Option<Value>)]
    pub error: Option<Box<RawValue>>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It has not.
    InProgress,
    /// The step is done.
    Complete,
    /// It failed, and the step is tried again.
    Failed,
    /// It failed, and so did the step.
    FailedForGood,
    /// The worker was not heard of any more.
    LeaseEnded,
    /// It took longer than the step's timeout, and the step is tried again.
    TimedOut,
    /// It took longer than the step's timeout, and the step failed.
    TimedOutForGood,
    /// The worker gave it back.
    GivenBack,
    /// The worker came as far as its checkpoint.
    Yielded,
    /// A person took it away.
    TakenAway,
    /// The step was cancelled because its task took too long; the task was resumed since.
    Cancelled,
    /// A person said what came of the step.
    CompletedManually,
    /// A person dealt with the step by other means.
    ResolvedManually,
    /// A person gave the step another chance.
    Reset,
}

impl Outcome {
    /// By the letter of its row; below a fence of zero a person did it.
    pub(crate) fn of(letter: &str, fence: i64) -> Outcome {
        match letter {
            "c" if fence < 0 => Outcome::CompletedManually,
            "c" => Outcome::Complete,
            "f" => Outcome::Failed,
            "e" => Outcome::FailedForGood,
            "l" => Outcome::LeaseEnded,
            "t" => Outcome::TimedOut,
            "T" => Outcome::TimedOutForGood,
            "g" => Outcome::GivenBack,
            "y" => Outcome::Yielded,
            "m" => Outcome::ResolvedManually,
            "r" => Outcome::Reset,
            "x" if fence < 0 => Outcome::Cancelled,
            "x" => Outcome::TakenAway,
            _ => Outcome::InProgress,
        }
    }
}

impl Flow {
    /// A page of the attempts at a step, by its name, in order; the one under way is the last. The first `after` are left out. It has no more than 16 MiB of results and errors, and
    /// one attempt at least. `None`: there is no such step, or it has not come to be.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a limit that is not between 1 and 1 000; else the database's.
    pub async fn audit(&self, task: Uuid, step: &str, after: u64, limit: usize) -> Result<Option<AttemptPage>> {
        if !(1..=ATTEMPT_PAGE_MAX).contains(&limit) {
            return Err(Error::invalid("limit", format!("it is {limit}; it must be between 1 and {ATTEMPT_PAGE_MAX}")));
        }
        let Some((_, place)) = self.inner.placed(task, step).await? else { return Ok(None) };
        let (first, last) = place.ordinals();
        let query = || {
            sqlx::query(&self.inner.sql.task_attempts)
                .bind(task)
                .bind(place.slot)
                .bind(place.part)
                .bind(first)
                .bind(last)
                .bind(i64::try_from(after).unwrap_or(i64::MAX - 1))
                .bind(limit as i64)
                .bind(ANSWER_BYTES_MAX as i64)
                // A plan of when the tables were small would read them whole.
                .persistent(false)
        };
        let rows = self.inner.db.ask("read attempts", query).await?;
        let Some(head) = rows.first() else { return Ok(None) };
        let total = head.try_get::<i64, _>("total")? as u64;
        let attempts: Vec<Attempt> = rows.iter().filter_map(|row| read(row).transpose()).collect::<Result<_>>()?;
        let read = after.saturating_add(attempts.len() as u64);
        Ok(Some(AttemptPage { next: Some(read).filter(|read| *read < total && !attempts.is_empty()), attempts }))
    }
}

fn read(row: &PgRow) -> Result<Option<Attempt>> {
    let Some(fence) = row.try_get("fence")? else { return Ok(None) };
    let [ready_at, claimed_at, ended_at] = ["ready_at", "claimed_at", "ended_at"].map(|column| row.try_get(column));
    let (ready_at, claimed_at, ended_at) = (ready_at?, claimed_at?, ended_at?);
    Ok(Some(Attempt {
        attempt: row.try_get::<i32, _>("attempt")? as u32,
        outcome: Outcome::of(row.try_get("outcome")?, fence),
        worker: row.try_get("worker")?,
        ready_at,
        claimed_at,
        ended_at,
        waited_ms: between(ready_at, claimed_at),
        duration_ms: between(claimed_at, ended_at),
        reason: row.try_get("reason")?,
        result: json(row, "result")?,
        error: json(row, "error")?,
    }))
}

/// `None`: one of the two has not happened.
fn between(from: Option<OffsetDateTime>, to: Option<OffsetDateTime>) -> Option<u64> {
    Some((to? - from?).whole_milliseconds().max(0) as u64)
}
