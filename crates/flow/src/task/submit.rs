//! Submitting tasks: all their steps are made in the transaction that makes them.

use std::sync::Arc;

use reveille_pg::{Schema, Sql};
use reveille_wake::{BatchResult, BatchedWrite, Channel, WakeUp, WriteBatch};
use serde::Deserialize;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::catalog::CachedTemplate;
use crate::error::{Error, Result};
use crate::event_driven::{Cause, News};
use crate::flat::flat;
use crate::flow::Flow;
use crate::json::Json;
use crate::name::{self, of_namespace, of_step};
use crate::task::identity::identity;

/// The tags of a task at most.
const TAGS_MAX: usize = 100;

/// A task to be made.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// The template,
    pub name: String,
    /// its namespace,
    pub namespace: String,
    /// and its version; empty: the newest that is registered.
    #[serde(default)]
    pub version: String,
    /// What the steps work on.
    #[serde(default)]
    pub context: Json,
    /// Who wants it.
    pub initiator: Option<String>,
    /// From where.
    pub source_system: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// By what to find it again.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The steps of a task of a higher priority are claimed first.
    #[serde(default)]
    pub priority: i16,
    /// What it belongs to.
    pub correlation_id: Option<String>,
    /// And what that belongs to.
    pub parent_correlation_id: Option<String>,
    /// Two with the same are one task.
    pub idempotency_key: Option<String>,
}

impl Submission {
    /// A task of a template.
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

    /// Refuses what cannot be stored.
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
            return Err(Error::invalid("tags", format!("there are {}; the limit is {TAGS_MAX}", self.tags.len())));
        }
        Ok(())
    }
}

/// A task that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submitted {
    /// What it is called.
    pub task_uuid: Uuid,
}

impl Flow {
    /// Makes a task. Its first steps can be claimed when this returns.
    ///
    /// # Errors
    /// [`Error::Duplicate`] if the same task was made before, [`Error::NoTemplate`], [`Error::Invalid`] for a context that the template does not allow and for everything else that cannot be
    /// meant; else the database's.
    pub async fn submit(&self, mut submission: Submission) -> Result<Submitted> {
        self.inner.follow_namespaces().await;
        if submission.version.is_empty() {
            submission.version = self.inner.newest_version(&submission.namespace, &submission.name).await?;
        }
        let kept = self.inner.allowed(&submission).await?;
        let identity = identity(&kept.template, &submission.context, submission.idempotency_key.as_deref());
        let identity = identity.map_err(|_| {
            Error::invalid("idempotency_key", "the template asks for one: its identity_strategy is caller_provided")
        })?;
        self.inner.make(kept, submission, identity).await
    }
}

impl crate::flow::Inner {
    /// The template of a submission that it allows.
    pub(crate) async fn allowed(&self, submission: &Submission) -> Result<Arc<CachedTemplate>> {
        submission.check()?;
        let Submission { namespace, name, version, .. } = submission;
        let kept = self.named(namespace, name, version).await?;
        kept.allows_context(&submission.context).await.map_err(|unfit| Error::schema("context", unfit))?;
        Ok(kept)
    }

    /// Makes a task of what is allowed.
    pub(crate) async fn make(
        &self,
        kept: Arc<CachedTemplate>,
        submission: Submission,
        identity: Option<Uuid>,
    ) -> Result<Submitted> {
        self.open_queues(&kept, submission.priority).await?;
        let id = Uuid::now_v7();
        let context = submission.context.get().to_owned();
        match self.submits.submit(Write { id, kept, identity, context, submission }).await? {
            SubmitOutcome::Created => Ok(Submitted { task_uuid: id }),
            SubmitOutcome::Duplicate(task) => Err(Error::Duplicate { task }),
        }
    }

    async fn open_queues(&self, kept: &CachedTemplate, priority: i16) -> Result<()> {
        if !kept.has_queues(priority) {
            let query = || sqlx::query(&self.sql.open_queues).bind(kept.id).bind(priority);
            self.db.ask("open step queues", query).await?;
            kept.note_queues(priority);
        }
        Ok(())
    }
}

pub(crate) struct Write {
    id: Uuid,
    kept: Arc<CachedTemplate>,
    identity: Option<Uuid>,
    /// As it is stored.
    context: String,
    submission: Submission,
}

pub(crate) enum SubmitOutcome {
    Created,
    /// Of this task.
    Duplicate(Uuid),
}

/// Sends submissions.
pub(crate) struct Submits {
    news: Arc<News>,
    channel: Channel,
    overdue: Channel,
    submit: Sql,
}

impl Submits {
    pub(crate) fn new(schema: &Schema, news: Arc<News>, channel: Channel, overdue: Channel) -> Submits {
        Submits { news, channel, overdue, submit: schema.sql(reveille_pg::statement!("submit_tasks")) }
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
        // A step is a row.
        write.context.len() + 100 * write.kept.template.steps.len() + 1_000
    }

    fn wake_ups(&self, write: &Write, outcome: Option<&SubmitOutcome>) -> Vec<WakeUp> {
        if matches!(outcome, Some(SubmitOutcome::Duplicate(_))) {
            return Vec::new();
        }
        let template = &write.kept.template;
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
        let limit = |write: &&Write| write.kept.template.lifecycle.limit_ms();
        let (tag_lasts, tags) = flat(writes.iter().map(|write| &write.submission.tags));
        let query = batch
            .query(&self.submit)
            .bind(writes.iter().map(|write| write.id).collect::<Vec<_>>())
            .bind(writes.iter().map(|write| write.kept.id).collect::<Vec<_>>())
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
        batch.result(self, &query.fetch_one(conn).await?)
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
            self.news.tell(Some(&write.kept.template.namespace), write.id, Cause::Submitted);
        }
    }
}
