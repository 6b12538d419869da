//! The rows of a claim of turns, and the turns made of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{KvEntry, OrchestrationItem, WorkItem};
use duroxide::{Event, EventKind};
use reveille_wake::{PollRequest, PollResult, Scan};
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::lease::LeasedItem;
use super::turn::{Turn, TurnKey};
use crate::read::{EventList, Head};
use crate::text::unescape;
use crate::token::TurnToken;
use crate::write::read_work_item;

/// A history, or why it cannot be decoded; and keys.
pub(super) type Loaded = (Result<EventList, String>, HashMap<String, KvEntry>);

/// The rows that the claim returned.
pub(crate) struct ClaimRows {
    pub(super) leased: Vec<Leased>,
    pub(super) next_due_ms: Option<f64>,
    pub(super) now_us: Option<i64>,
    /// A due message waits for the end of a lease.
    pub(super) blocked: bool,
    pub(super) scan: Scan,
}

impl ClaimRows {
    pub(super) fn of(rows: &[PgRow], scan: Scan) -> reveille_pg::Result<ClaimRows> {
        let mut claimed = ClaimRows { leased: Vec::new(), next_due_ms: None, now_us: None, blocked: false, scan };
        for row in rows {
            match Leased::of(row)? {
                Some(one) => claimed.leased.push(one),
                None => {
                    (claimed.next_due_ms, claimed.now_us) = (row.try_get("next_due_ms")?, row.try_get("due_us")?);
                    claimed.blocked = row.try_get("blocked")?;
                }
            }
        }
        Ok(claimed)
    }
}

/// A row of the claim.
pub(super) struct Leased {
    pub(super) token: TurnToken,
    pub(super) due_us: i64,
    attempt: i32,
    messages: Vec<String>,
    name: Option<String>,
    version: Option<String>,
    pub(super) execution: i64,
    pub(super) last: i64,
    /// An execution of the instance has ended, and may have left keys.
    pub(super) had_executions: bool,
    /// `None`: there is no instance yet, so the history cannot be cached.
    pub(super) head: Option<Head>,
}

impl Leased {
    fn of(row: &PgRow) -> reveille_pg::Result<Option<Leased>> {
        let Some(instance) = row.try_get::<Option<String>, _>("instance_id")? else { return Ok(None) };
        let fence: Uuid = row.try_get("lock_token")?;
        let execution: Option<i64> = row.try_get("execution_id")?;
        let last = row.try_get::<Option<i64>, _>("last_event_id")?.unwrap_or(0);
        let generation: Option<i64> = row.try_get("generation")?;
        Ok(Some(Leased {
            token: TurnToken { fence, instance },
            due_us: row.try_get("due_us")?,
            attempt: row.try_get("attempt")?,
            messages: row.try_get("messages")?,
            name: row.try_get("orchestration_name")?,
            version: row.try_get("orchestration_version")?,
            execution: execution.unwrap_or(1),
            last,
            had_executions: row.try_get::<Option<bool>, _>("had_executions")?.unwrap_or(false),
            head: generation.zip(execution).map(|(generation, execution)| Head { execution, generation, last }),
        }))
    }

    /// What an ack must know in order to be pipelined. Only first attempts are: a turn whose ack the database has refused
    /// is claimed again, and the next ack must tell the runtime, which then fails the orchestration.
    pub(super) fn item(&self) -> Option<LeasedItem> {
        (self.attempt == 1).then_some(LeasedItem::Turn { execution: self.execution, last: self.last })
    }

    fn into_turn(self, history: Result<EventList, String>, kv: HashMap<String, KvEntry>) -> Turn {
        let messages: Vec<WorkItem> = self.messages.iter().filter_map(|text| self.message(text)).collect();
        let (history, history_error) = match history {
            Ok(history) => (Arc::unwrap_or_clone(history.events), None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let (name, version) = match self.name {
            Some(name) => (name, self.version),
            None => name_of_start(&history, &messages),
        };
        let item = OrchestrationItem {
            instance: unescape(self.token.instance.clone()),
            orchestration_name: unescape(name),
            execution_id: self.execution as u64,
            version: version.map_or_else(|| "unknown".to_owned(), unescape),
            history,
            messages,
            kv_snapshot: if history_error.is_some() { HashMap::new() } else { kv },
            history_error,
        };
        Turn { item, token: self.token, attempt: self.attempt as u32 }
    }

    /// A message that cannot be decoded is skipped and removed by the ack of the turn, so that it does not block its
    /// instance.
    fn message(&self, text: &str) -> Option<WorkItem> {
        let instance = unescape(self.token.instance.clone());
        read_work_item(text, &instance)
            .inspect_err(|error| {
                let column = error.column();
                tracing::error!(instance_id = %self.token.instance, column, "dropped a message that cannot be decoded");
            })
            .ok()
    }
}

/// Name and version of an orchestration that has no instance yet.
fn name_of_start(history: &[Event], messages: &[WorkItem]) -> (String, Option<String>) {
    let started = history.iter().find_map(|event| match &event.kind {
        EventKind::OrchestrationStarted { name, version, .. } => Some((name.clone(), Some(version.clone()))),
        _ => None,
    });
    let starting = || {
        messages.iter().find_map(|item| match item {
            WorkItem::StartOrchestration { orchestration, version, .. }
            | WorkItem::ContinueAsNew { orchestration, version, .. } => Some((orchestration.clone(), version.clone())),
            _ => None,
        })
    };
    started.or_else(starting).unwrap_or_else(|| ("unknown".to_owned(), None))
}

/// The result of a claim, with what was loaded.
pub(super) fn result(
    poll: &PollRequest<TurnKey, ()>,
    ClaimRows { leased, next_due_ms, .. }: ClaimRows,
    loaded: Vec<Loaded>,
    sweep: Option<Duration>,
) -> PollResult<Turn> {
    let turns = leased.into_iter().zip(loaded).map(|(leased, (history, kv))| leased.into_turn(history, kv)).collect();
    poll_result(next_due_ms, sweep).deal(poll, turns, Some(poll.key.lease))
}

/// An empty result with the time of the next poll: when the next item is due, or the next sweep.
pub(crate) fn poll_result<I>(next_due_ms: Option<f64>, sweep: Option<Duration>) -> PollResult<I> {
    let sweep_ms = sweep.map(|sweep| sweep.as_secs_f64() * 1_000.0);
    PollResult::next_due_ms(next_due_ms.into_iter().chain(sweep_ms).reduce(f64::min))
}
