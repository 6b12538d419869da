//! Submitting tasks: a task and all its steps are created in one transaction.

use std::sync::Arc;

use reveille_pg::audit::Entry;
use reveille_pg::{Schema, Sql};
use reveille_wake::{BatchResult, BatchedWrite, Channel, Consumer, WakeUp, WriteBatch};
use serde::Deserialize;
use sqlx::{Connection as _, PgConnection, Row as _};
use uuid::Uuid;

use crate::claim::{Claims, in_write};
use crate::error::{Error, Result};
use crate::events::{Cause, TaskEvents};
use crate::flow::Flow;
use crate::json::Json;
use crate::name::{self, of_namespace, of_step};
use crate::task::identity::identity;
use crate::task::stored::flat;
use crate::template::cache::CachedTemplate;

/// The most tags of a task.
const TAGS_MAX: usize = 100;

/// A task to create.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// The name of the template.
    pub name: String,
    /// The namespace of the template.
    pub namespace: String,
    /// The version of the template; empty: the newest registered version.
    #[serde(default)]
    pub version: String,
    /// The input of the task, which all steps receive.
    #[serde(default)]
    pub context: Json,
    /// The user or system that wants the task.
    pub initiator: Option<String>,
    /// The system that submits it.
    pub source_system: Option<String>,
    /// Why it is submitted.
    pub reason: Option<String>,
    /// Labels to find the task by.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Steps of tasks with a higher priority are claimed first.
    #[serde(default)]
    pub priority: i16,
    /// Groups tasks that belong together.
    pub correlation_id: Option<String>,
    /// The correlation id of the parent.
    pub parent_correlation_id: Option<String>,
    /// Submissions with the same key are the same task.
    pub idempotency_key: Option<String>,
}

impl Submission {
    /// A submission with the defaults for everything else.
    pub fn new(namespace: &str, name: &str, version: &str, context: impl Into<Json>) -> Submission {
        Submission {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            version: version.to_owned(),
            context: context.into(),
            initiator: None,
            source_system: None,
            reason: None,
            tags: Vec::new(),
            priority: 0,
            correlation_id: None,
            parent_correlation_id: None,
            idempotency_key: None,
        }
    }

    /// Checks the parameters.
    fn check(&self) -> Result<()> {
        let texts = [
            ("initiator", &self.initiator),
            ("source_system", &self.source_system),
            ("reason", &self.reason),
            ("correlation_id", &self.correlation_id),
            ("parent_correlation_id", &self.parent_correlation_id),
            ("idempotency_key", &self.idempotency_key),
        ];
        let texts = texts.iter().filter_map(|(what, text)| Some((*what, text.as_ref()?)));
        for (what, text) in texts.chain(self.tags.iter().map(|tag| ("tags", tag))) {
            name::check(what, text)?;
        }
        if self.tags.len() > TAGS_MAX {
            return Err(Error::invalid(
                "tags",
                format!("must have at most {TAGS_MAX} elements, got {}", self.tags.len()),
            ));
        }
        Ok(())
    }
}

/// A created task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submitted {
    /// The id of the task.
    pub task_uuid: Uuid,
}

impl Flow {
    /// Creates a task. Its first steps can be claimed when this returns.
    ///
    /// # Errors
    /// [`Error::Duplicate`] if the same task exists, [`Error::NoTemplate`], [`Error::Invalid`] for a context that the
    /// template does not allow or another invalid parameter; otherwise a database error.
    pub async fn submit(&self, mut submission: Submission) -> Result<Submitted> {
        self.inner.track_namespaces().await;
        if submission.version.is_empty() {
            submission.version = self.inner.newest_version(&submission.namespace, &submission.name).await?;
        }
        let cached = self.inner.allowed(&submission).await?;
        let identity = identity(&cached.template, &submission.context, submission.idempotency_key.as_deref());
        let identity = identity.map_err(|_| {
            Error::invalid("idempotency_key", "required: the template's identity_strategy is caller_provided")
        })?;
        self.inner.make(cached, submission, identity, None).await
    }
}

impl crate::flow::Inner {
    /// The template of a submission, if it allows the context.
    pub(crate) async fn allowed(&self, submission: &Submission) -> Result<Arc<CachedTemplate>> {
        submission.check()?;
        let Submission { namespace, name, version, .. } = submission;
        let cached = self.template_by_name(namespace, name, version).await?;
        cached.allows_context(&submission.context).await.map_err(|unfit| Error::schema("context", unfit))?;
        Ok(cached)
    }

    /// Creates a task from a checked submission, and writes `entry` in the same transaction.
    pub(crate) async fn make(
        &self,
        cached: Arc<CachedTemplate>,
        submission: Submission,
        identity: Option<Uuid>,
        entry: Option<Entry>,
    ) -> Result<Submitted> {
        self.open_queues(&cached, submission.priority).await?;
        let id = Uuid::now_v7();
        let context = submission.context.get().to_owned();
        match self.submits.submit(Write { id, cached, identity, context, submission, entry }).await? {
            SubmitOutcome::Created => Ok(Submitted { task_uuid: id }),
            SubmitOutcome::Duplicate(task) => Err(Error::Duplicate { task }),
        }
    }

    pub(crate) async fn open_queues(&self, cached: &CachedTemplate, priority: i16) -> Result<()> {
        if !cached.has_queues(priority) {
            let query = || sqlx::query(&self.sql.open_queues).bind(cached.id).bind(priority);
            self.db.ask("open step queues", query).await?;
            cached.note_queues(priority);
        }
        Ok(())
    }
}

pub(crate) struct Write {
    id: Uuid,
    cached: Arc<CachedTemplate>,
    identity: Option<Uuid>,
    /// The context as JSON text.
    context: String,
    submission: Submission,
    /// The row of the audit.
    entry: Option<Entry>,
}

pub(crate) enum SubmitOutcome {
    Created,
    /// There is this task with the same identity.
    Duplicate(Uuid),
}

/// Writes submissions.
pub(crate) struct Submits {
    task_events: Arc<TaskEvents>,
    channel: Channel,
    overdue: Channel,
    claims: Consumer<Claims>,
    submit: Sql,
    and_claim: Sql,
}

impl Submits {
    pub(crate) fn new(
        schema: &Schema,
        task_events: Arc<TaskEvents>,
        channel: Channel,
        overdue: Channel,
        claims: Consumer<Claims>,
    ) -> Submits {
        let submit = schema.sql(reveille_pg::statement!("submit_tasks"));
        let and_claim = schema.sql(reveille_pg::statement!("submit_and_claim_tasks"));
        Submits { task_events, channel, overdue, claims, submit, and_claim }
    }
}

impl BatchedWrite for Submits {
    type Write = Write;
    type Key = Option<Uuid>;
    type Outcome = SubmitOutcome;
    const RECORDS_OUTCOMES: bool = true;

    fn key(&self, write: &Write) -> Option<Uuid> {
        write.identity
    }

    fn bytes(&self, write: &Write) -> usize {
        // Each step is a row.
        write.context.len() + 100 * write.cached.template.steps.len() + 1_000
    }

    fn wake_ups(&self, write: &Write, outcome: Option<&SubmitOutcome>) -> Vec<WakeUp> {
        if matches!(outcome, Some(SubmitOutcome::Duplicate(_))) {
            return Vec::new();
        }
        let template = &write.cached.template;
        let first = template.steps.iter().filter(|step| step.parents.is_empty() && !step.absent);
        let mut keys: Vec<String> = first.map(|step| of_step(&template.namespace, &step.name)).collect();
        keys.push(of_namespace(&template.namespace));
        let limit = template.lifecycle.first_limit().map(|limit| self.overdue.wake_up().after(limit));
        [self.channel.wake_up_keys(keys.iter().map(String::as_str))].into_iter().chain(limit).collect()
    }

    async fn send(
        &self,
        conn: &mut PgConnection,
        batch: &WriteBatch<'_, Write>,
    ) -> reveille_pg::Result<BatchResult<Self::Outcome>> {
        let writes = &batch.writes;
        let text =
            |text: fn(&Submission) -> Option<&str>| writes.iter().map(|m| text(&m.submission)).collect::<Vec<_>>();
        let limit = |write: &&Write| write.cached.template.lifecycle.limit_ms();
        let (tag_lasts, tags) = flat(writes.iter().map(|write| &write.submission.tags));
        let is_audited = writes.iter().any(|write| write.entry.is_some());
        let poll = if is_audited { None } else { batch.attach(&self.claims) };
        let query = batch
            .query(if poll.is_some() { &self.and_claim } else { &self.submit })
            .bind(writes.iter().map(|write| write.id).collect::<Vec<_>>())
            .bind(writes.iter().map(|write| write.cached.id).collect::<Vec<_>>())
            .bind(writes.iter().map(|write| write.submission.priority).collect::<Vec<_>>())
            .bind(writes.iter().map(|write| write.identity).collect::<Vec<_>>())
            .bind(writes.iter().map(limit).collect::<Vec<_>>())
            .bind(writes.iter().map(|write| write.context.as_str()).collect::<Vec<_>>())
            .bind(text(|submission| submission.initiator.as_deref()))
            .bind(text(|submission| submission.source_system.as_deref()))
            .bind(text(|submission| submission.reason.as_deref()))
            .bind(text(|submission| submission.correlation_id.as_deref()))
            .bind(text(|submission| submission.parent_correlation_id.as_deref()))
            .bind(text(|submission| submission.idempotency_key.as_deref()))
            .bind(tag_lasts)
            .bind(tags);
        if !is_audited {
            return in_write::send(self, conn, batch, query, poll).await;
        }
        let mut transaction = conn.begin().await?;
        let row = query.fetch_one(&mut *transaction).await?;
        let texts: Vec<Option<String>> = row.try_get(0)?;
        for (write, text) in writes.iter().zip(texts) {
            let is_created = matches!(text.and_then(|text| self.decode(write, &text)), Some(SubmitOutcome::Created));
            if let Some(entry) = write.entry.as_ref().filter(|_| is_created) {
                entry.write(&mut transaction).await?;
            }
        }
        transaction.commit().await?;
        batch.result(self, &row)
    }

    fn decode(&self, _: &Write, text: &str) -> Option<SubmitOutcome> {
        match text.split_once(' ') {
            None if text == "created" => Some(SubmitOutcome::Created),
            Some(("duplicate", task)) => Uuid::try_parse(task).ok().map(SubmitOutcome::Duplicate),
            _ => None,
        }
    }

    fn committed(&self, write: &Write, outcome: &SubmitOutcome) {
        if matches!(outcome, SubmitOutcome::Created) {
            self.task_events.publish(Some(&write.cached.template.namespace), write.id, Cause::Submitted);
        }
    }
}
