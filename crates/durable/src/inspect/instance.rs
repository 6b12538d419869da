//! One instance: its state, what waits for it, and why it is not running.

use reveille_web::Timestamp;
use serde::Serialize;
use sqlx::Row;
use sqlx::postgres::PgRow;
use utoipa::ToSchema;

use super::history::{EVENTS_MAX, Format, Open};
use super::reason::reason;
use super::{Instances, Status, json_text, maybe_text, maybe_time, number, text};
use crate::error::Result;
use crate::text::escape;

/// The most messages and activities of an answer.
const SHOWN_MAX: usize = 50;
/// The largest output of an answer, in bytes.
const OUTPUT_MAX: i64 = 1 << 20;
/// The most children that are named.
const CHILDREN_SHOWN: i64 = 3;
/// The longest history that is searched for subscriptions.
const SEARCHED_EVENTS: u64 = EVENTS_MAX;

/// An instance.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Instance)]
pub(crate) struct Instance {
    /// Its id.
    pub(crate) instance: String,
    /// The name of its orchestration.
    pub(crate) name: String,
    /// The version; null if no turn has chosen one yet.
    pub(crate) version: Option<String>,
    /// Its state.
    pub(crate) status: Status,
    /// Why it is not running now, or who runs it, in one sentence.
    pub(crate) reason: String,
    /// The instance that it is a sub-orchestration of.
    pub(crate) parent: Option<String>,
    /// The number of its current execution; 0 if it has none yet.
    pub(crate) execution: u64,
    /// When its first turn began; of one that has not run yet: when it was started.
    #[schema(value_type = String, format = "date-time")]
    pub(crate) created_at: Timestamp,
    /// When an execution began or ended, or the custom status changed.
    #[schema(value_type = String, format = "date-time")]
    pub(crate) updated_at: Timestamp,
    /// When the current execution began.
    #[schema(value_type = Option<String>, format = "date-time")]
    pub(crate) started_at: Option<Timestamp>,
    /// When the current execution ended.
    #[schema(value_type = Option<String>, format = "date-time")]
    pub(crate) completed_at: Option<Timestamp>,
    /// What the orchestration has set as its status.
    pub(crate) custom_status: Option<String>,
    /// How often the custom status was set.
    pub(crate) custom_status_version: u64,
    /// The output or error of the current execution; null while it runs, if it is larger than a megabyte, or if the
    /// client may not see payloads.
    pub(crate) output: Option<String>,
    /// The bytes of the output.
    pub(crate) output_bytes: Option<u64>,
    /// The lease of the running turn, or the last one if its process has not given it back.
    pub(crate) lease: Option<Lease>,
    /// Messages that wait for it, the first due first; at most 50.
    pub(crate) messages: Vec<Message>,
    /// Whether there are more messages.
    pub(crate) more_messages: bool,
    /// Activities that have not ended; at most 50.
    pub(crate) activities: Vec<Activity>,
    /// Whether there are more activities.
    pub(crate) more_activities: bool,
    /// Events and queues that it waits for, as far as the first 1 000 events of its history show.
    pub(crate) waits_for: Vec<String>,
}

/// The lease of a turn.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TurnLease)]
pub(crate) struct Lease {
    /// Whether it is still held.
    pub(crate) held: bool,
    /// Its end.
    #[schema(value_type = String, format = "date-time")]
    pub(crate) until: Timestamp,
    /// How many messages the turn processes.
    pub(crate) messages: u64,
}

/// A message to an instance, without its payload.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = InstanceMessage)]
pub(crate) struct Message {
    /// As duroxide names it: `TimerFired`, for example.
    pub(crate) kind: String,
    /// The event, queue or orchestration.
    pub(crate) name: Option<String>,
    /// When it is due; null: when the instance has been started.
    #[schema(value_type = Option<String>, format = "date-time")]
    pub(crate) due_at: Option<Timestamp>,
    /// Whether it is due.
    pub(crate) is_due: bool,
    /// Attempts that ended without a result.
    pub(crate) attempts: u64,
}

/// An activity that has not ended, without its payload.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WaitingActivity)]
pub(crate) struct Activity {
    /// The event that scheduled it.
    pub(crate) event_id: u64,
    /// The execution that scheduled it.
    pub(crate) execution: u64,
    /// Its name.
    pub(crate) name: String,
    /// Whether a worker has it.
    pub(crate) is_running: bool,
    /// Until when the worker has it, or had it.
    #[schema(value_type = Option<String>, format = "date-time")]
    pub(crate) leased_until: Option<Timestamp>,
    /// When it was or will be due.
    #[schema(value_type = String, format = "date-time")]
    pub(crate) due_at: Timestamp,
    /// Whether it is due.
    pub(crate) is_due: bool,
    /// How often a worker has taken it.
    pub(crate) attempts: u64,
    /// Only workers with this tag take it.
    pub(crate) tag: Option<String>,
    /// Only the worker with this session takes it.
    pub(crate) session: Option<String>,
}

/// A child that has not ended.
#[derive(Debug)]
pub(super) struct Child {
    /// Not known before its first turn.
    pub(super) instance: Option<String>,
    pub(super) name: String,
}

impl Instances {
    /// An instance, or one that was started and has not run yet. `None`: there is neither.
    pub(crate) async fn instance(&self, instance: &str) -> Result<Option<Instance>> {
        let id = escape(instance).into_owned();
        let rows =
            self.ask("read an instance", || sqlx::query(&self.inner.sql.instance).bind(id.clone()).bind(OUTPUT_MAX));
        let row = rows.await?.pop();
        let (messages, more_messages) = self.messages(&id).await?;
        let Some(row) = row else { return Ok(unstarted(instance, messages, more_messages)) };
        let (activities, more_activities) = self.activities(&id).await?;
        let mut found = read(instance, &row)?;
        (found.messages, found.more_messages) = (messages, more_messages);
        (found.activities, found.more_activities) = (activities, more_activities);
        let mut children = Vec::new();
        if !found.status.has_ended() {
            let open = self.open(instance, found.execution).await;
            children = self.running_children(&id).await?;
            if children.is_empty() {
                // They were scheduled and have not run yet.
                children = open.children().into_iter().map(|name| Child { instance: None, name }).collect();
            }
            found.waits_for = open.subscriptions();
        }
        found.reason = reason(&found, &children);
        Ok(Some(found))
    }

    async fn messages(&self, id: &str) -> Result<(Vec<Message>, bool)> {
        let rows = self.ask("list messages of an instance", || {
            sqlx::query(&self.inner.sql.messages).bind(id.to_owned()).bind(SHOWN_MAX as i64 + 1)
        });
        let rows = rows.await?;
        let shown = rows.iter().take(SHOWN_MAX).map(message).collect::<reveille_pg::Result<_>>()?;
        Ok((shown, rows.len() > SHOWN_MAX))
    }

    async fn activities(&self, id: &str) -> Result<(Vec<Activity>, bool)> {
        let rows = self.ask("list activities of an instance", || {
            sqlx::query(&self.inner.sql.activities).bind(id.to_owned()).bind(SHOWN_MAX as i64 + 1)
        });
        let rows = rows.await?;
        let shown = rows.iter().take(SHOWN_MAX).map(activity).collect::<reveille_pg::Result<_>>()?;
        Ok((shown, rows.len() > SHOWN_MAX))
    }

    async fn running_children(&self, id: &str) -> Result<Vec<Child>> {
        let rows = self.ask("list running children", || {
            sqlx::query(&self.inner.sql.running_children).bind(id.to_owned()).bind(CHILDREN_SHOWN)
        });
        let child = |row: &PgRow| -> reveille_pg::Result<Child> {
            Ok(Child { instance: Some(text(row, "instance_id")?), name: text(row, "orchestration_name")? })
        };
        Ok(rows.await?.iter().map(child).collect::<reveille_pg::Result<_>>()?)
    }

    /// What the current execution waits for. A history that cannot be read must not hide the rest.
    async fn open(&self, instance: &str, execution: u64) -> Open {
        let history = self.history(instance, Some(execution), 0, SEARCHED_EVENTS, Format::Compact).await;
        let mut open = Open::default();
        history.unwrap_or_default().events.iter().for_each(|event| open.take(event));
        open
    }
}

/// An instance of which there is only the message that starts it.
fn unstarted(instance: &str, messages: Vec<Message>, more_messages: bool) -> Option<Instance> {
    let start = messages.iter().find(|message| message.kind == "StartOrchestration")?;
    let since = start.due_at?;
    let mut found = Instance {
        instance: instance.to_owned(),
        name: start.name.clone().unwrap_or_default(),
        version: None,
        status: Status::Pending,
        reason: String::new(),
        parent: None,
        execution: 0,
        created_at: since,
        updated_at: since,
        started_at: None,
        completed_at: None,
        custom_status: None,
        custom_status_version: 0,
        output: None,
        output_bytes: None,
        lease: None,
        messages,
        more_messages,
        activities: Vec::new(),
        more_activities: false,
        waits_for: Vec::new(),
    };
    found.reason = reason(&found, &[]);
    Some(found)
}

fn read(instance: &str, row: &PgRow) -> reveille_pg::Result<Instance> {
    let lease = maybe_time(row, "locked_until")?;
    let held: Option<bool> = row.try_get("is_leased")?;
    let messages = number(row, "leased_messages")?;
    Ok(Instance {
        instance: instance.to_owned(),
        name: text(row, "orchestration_name")?,
        version: maybe_text(row, "orchestration_version")?,
        status: Status::stored(row.try_get("status")?),
        reason: String::new(),
        parent: maybe_text(row, "parent_instance_id")?,
        execution: number(row, "current_execution_id")?,
        created_at: Timestamp(row.try_get("created_at")?),
        updated_at: Timestamp(row.try_get("updated_at")?),
        started_at: maybe_time(row, "started_at")?,
        completed_at: maybe_time(row, "completed_at")?,
        custom_status: maybe_text(row, "custom_status")?,
        custom_status_version: number(row, "custom_status_version")?,
        output: maybe_text(row, "output")?,
        output_bytes: row.try_get::<Option<i64>, _>("output_bytes")?.map(|bytes| bytes as u64),
        lease: lease.map(|until| Lease { held: held.unwrap_or(false), until, messages }),
        messages: Vec::new(),
        more_messages: false,
        activities: Vec::new(),
        more_activities: false,
        waits_for: Vec::new(),
    })
}

fn message(row: &PgRow) -> reveille_pg::Result<Message> {
    let kind: Option<String> = row.try_get("kind")?;
    let kind = kind.unwrap_or_else(|| "unknown".to_owned());
    let is_named = ["StartOrchestration", "ContinueAsNew", "ExternalRaised", "QueueMessage"].contains(&kind.as_str());
    Ok(Message {
        // Of other kinds the text may be a part of a payload.
        name: json_text(row, "name")?.filter(|_| is_named),
        kind,
        due_at: maybe_time(row, "due_at")?,
        is_due: row.try_get("is_due")?,
        attempts: row.try_get::<i32, _>("attempt_count")?.max(0) as u64,
    })
}

fn activity(row: &PgRow) -> reveille_pg::Result<Activity> {
    let tag = maybe_text(row, "tag_queue")?;
    Ok(Activity {
        event_id: number(row, "activity_id")?,
        execution: number(row, "execution_id")?,
        name: json_text(row, "name")?.unwrap_or_default(),
        is_running: row.try_get("is_running")?,
        leased_until: maybe_time(row, "locked_until")?,
        due_at: Timestamp(row.try_get("visible_at")?),
        is_due: row.try_get("is_due")?,
        attempts: row.try_get::<i32, _>("attempt_count")?.max(0) as u64,
        tag: tag.map(|tag| tag.trim_start_matches('#').to_owned()),
        session: maybe_text(row, "session_id")?,
    })
}
