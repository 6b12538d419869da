//! Registering and loading templates.

use reveille_pg::audit::Entry;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::error::{Error, Result};
use crate::flow::{Flow, Inner};
use crate::template::cache::CachedTemplate;
use crate::template::schema::apart;
use crate::template::{Backoff, FailureStrategy, PublishWhen, StalenessAction, StepDefinition, StepKind, Template};

const BUSY: Error = Error::Busy { what: "template" };

/// Characters of a description that a list of templates shows.
const LISTED_DESCRIPTION_MAX: usize = 1_000;

/// A registered template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Registered {
    /// The namespace of the template.
    pub namespace: String,
    /// The name of the template.
    pub name: String,
    /// The version of the template.
    pub version: String,
    /// The number of its steps.
    pub steps: usize,
    /// Whether it was registered now, and not before.
    pub new: bool,
}

impl Flow {
    /// Registers a template in YAML or JSON. Registering the same text again changes nothing.
    ///
    /// # Errors
    /// [`Error::Template`] with all faults, or [`Error::VersionTaken`] if the version is registered with another text:
    /// nothing was registered. Otherwise a database error.
    pub async fn register(&self, text: &str) -> Result<Registered> {
        let template = self.validate(text).await?;
        let row = self.inner.store(&template).await?;
        let registered = Registered {
            namespace: template.namespace.clone(),
            name: template.name.clone(),
            version: template.version.clone(),
            steps: template.steps.len(),
            new: row.try_get("new")?,
        };
        if !row.try_get::<bool, _>("same")? {
            let Registered { namespace, name, version, .. } = registered;
            return Err(Error::VersionTaken { namespace, name, version });
        }
        let id = row.try_get("id")?;
        let cached = apart(move || CachedTemplate::new(id, template)).await.ok_or(BUSY)?;
        self.inner.templates.insert(cached);
        if registered.new {
            // Claims by callables look up the names again.
            self.inner.notify_namespaces();
        }
        Ok(registered)
    }

    /// Parses and checks a template without registering it.
    ///
    /// # Errors
    /// [`Error::Template`] with all faults; [`Error::Busy`] if too many validations are running.
    pub async fn validate(&self, text: &str) -> Result<Template> {
        let (text, environment) = (text.to_owned(), self.inner.environment.clone());
        Ok(apart(move || Template::parse(&text, environment.as_deref())).await.ok_or(BUSY)??)
    }

    /// A registered template.
    ///
    /// # Errors
    /// [`Error::NoTemplate`]; otherwise a database error.
    pub async fn template(&self, namespace: &str, name: &str, version: &str) -> Result<Template> {
        Ok(self.inner.template_by_name(namespace, name, version).await?.template.clone())
    }
}

impl Inner {
    async fn store(&self, template: &Template) -> Result<PgRow> {
        let ms = |minutes: Option<f64>| minutes.map(|minutes| (minutes * 60_000.0) as i64);
        let lifecycle = &template.lifecycle;
        let limits = json!({
            "description": listed(&template.description),
            "max_duration_ms": ms(lifecycle.max_duration_minutes),
            "max_waiting_ms": ms(lifecycle.max_waiting_for_dependencies_minutes),
            "max_retry_ms": ms(lifecycle.max_waiting_for_retry_minutes),
            "max_in_process_ms": ms(lifecycle.max_steps_in_process_minutes),
            "staleness": staleness_word(lifecycle.staleness_action),
        });
        let definitions = template.steps.iter().enumerate().map(|(index, step)| definition(template, index, step));
        let definitions = Value::Array(definitions.collect()).to_string();
        let document = serde_json::to_string(template).expect("a template is JSON");
        let query = || {
            sqlx::query(&self.sql.register_template)
                .bind(&template.namespace)
                .bind(&template.name)
                .bind(&template.version)
                .bind(document.clone())
                .bind(limits.to_string())
                .bind(definitions.clone())
        };
        let target = format!("{}/{}/{}", template.namespace, template.name, template.version);
        let entry = Entry::new("template.register", target);
        let rows = self.db.act("register a template", entry, query, |rows| !rows.is_empty()).await?;
        Ok(rows.into_iter().next().ok_or(sqlx::Error::RowNotFound)?)
    }

    /// The template with this name.
    pub(crate) async fn template_by_name(
        &self,
        namespace: &str,
        name: &str,
        version: &str,
    ) -> Result<Arc<CachedTemplate>> {
        if let Some(cached) = self.templates.by_name(namespace, name, version) {
            return Ok(cached);
        }
        let missing = || Error::NoTemplate {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            version: version.to_owned(),
        };
        if [namespace, name, version].iter().any(|part| part.contains('\0')) {
            // PostgreSQL rejects such a parameter.
            return Err(missing());
        }
        let query = || sqlx::query(&self.sql.find_template).bind(namespace).bind(name).bind(version);
        let rows = self.db.ask("find a template", query).await?;
        match rows.first() {
            Some(row) => self.read(row).await,
            None => Err(missing()),
        }
    }

    /// The template with this id. `None`: there is none.
    pub(crate) async fn template_by_id(&self, id: i32) -> Result<Option<Arc<CachedTemplate>>> {
        if let Some(cached) = self.templates.by_id(id) {
            return Ok(Some(cached));
        }
        let rows = self.db.ask("load a template", || sqlx::query(&self.sql.load_template).bind(id)).await?;
        match rows.first() {
            Some(row) => self.read(row).await.map(Some),
            None => Ok(None),
        }
    }

    async fn read(&self, row: &PgRow) -> Result<Arc<CachedTemplate>> {
        let (id, document): (i32, String) = (row.try_get("id")?, row.try_get("document")?);
        let read = move || Template::parse_registered(&document).map(|template| CachedTemplate::new(id, template));
        Ok(self.templates.insert(apart(read).await.ok_or(BUSY)??))
    }
}

/// The beginning of a description, for lists. NUL characters, which PostgreSQL cannot store, are replaced.
fn listed(description: &str) -> String {
    description.replace('\0', "\u{fffd}").chars().take(LISTED_DESCRIPTION_MAX).collect()
}

/// A step as stored in `step_definition`.
fn definition(template: &Template, index: usize, step: &StepDefinition) -> Value {
    let published = |when: PublishWhen| {
        let events = step.publishes_events.iter();
        let events = events.filter(|event| event.condition == when || event.condition == PublishWhen::Always);
        events.map(|event| event.name.as_str()).collect::<Vec<_>>()
    };
    json!({
        "ordinal": index,
        "name": step.name,
        "kind": kind_word(step.kind),
        "parents": step.parents,
        "children": step.children,
        "conditional": step.absent,
        "callable": step.handler.callable,
        "initialization": step.handler.initialization.to_string(),
        "max_attempts": if step.retry.retryable { step.retry.max_attempts } else { 1 },
        "backoff": backoff_word(step.retry.backoff),
        "backoff_base_ms": step.retry.backoff_base_ms,
        "max_backoff_ms": step.retry.max_backoff_ms,
        "jitter": step.retry.jitter,
        "timeout_ms": step.timeout.map(|timeout| timeout.as_millis() as u64),
        "failure_strategy": strategy_word(template, step),
        "success_events": published(PublishWhen::Success),
        "failure_events": published(PublishWhen::Failure),
    })
}

fn kind_word(kind: StepKind) -> &'static str {
    match kind {
        StepKind::Standard => "standard",
        StepKind::Decision => "decision",
        StepKind::DeferredConvergence => "deferred_convergence",
        StepKind::Batchable => "batchable",
        StepKind::BatchWorker => "batch_worker",
    }
}

fn backoff_word(backoff: Backoff) -> &'static str {
    match backoff {
        Backoff::None => "none",
        Backoff::Linear => "linear",
        Backoff::Exponential => "exponential",
        Backoff::Fibonacci => "fibonacci",
    }
}

fn staleness_word(action: StalenessAction) -> &'static str {
    match action {
        StalenessAction::Dlq => "dlq",
        StalenessAction::Alert => "alert",
        StalenessAction::Error => "error",
    }
}

/// The failure strategy of the parts of a batch, which the batchable step has.
fn strategy_word(template: &Template, step: &StepDefinition) -> Option<&'static str> {
    let parent = step.parents.first().filter(|_| step.kind == StepKind::BatchWorker)?;
    Some(match template.steps[*parent].batch_config.as_ref()?.failure_strategy {
        FailureStrategy::FailFast => "fail_fast",
        FailureStrategy::ContinueOnFailure => "continue_on_failure",
        FailureStrategy::Isolate => "isolate",
    })
}
