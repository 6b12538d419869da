//! Registering templates, and finding them again.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::catalog::CachedTemplate;
use crate::error::{Error, Result};
use crate::flow::{Flow, Inner};
use crate::template::schema::apart;
use crate::template::{Backoff, FailureStrategy, PublishWhen, StalenessAction, StepDefinition, StepKind, Template};

/// Others are read.
const BUSY: Error = Error::Busy { what: "template" };

/// Characters of a description that a list of templates shows.
const LISTED_DESCRIPTION_MAX: usize = 1_000;

/// A template that was registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Registered {
    /// Its namespace,
    pub namespace: String,
    /// name,
    pub name: String,
    /// and version.
    pub version: String,
    /// How many steps it has.
    pub steps: usize,
    /// Whether it was not there before.
    pub new: bool,
}

impl Flow {
    /// Registers a template, written in YAML or JSON. The same text again changes nothing.
    ///
    /// # Errors
    /// [`Error::Template`] with everything that is wrong with it, [`Error::VersionTaken`] if that version has another text; else the database's. Nothing was registered then.
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
        let kept = apart(move || CachedTemplate::new(id, template)).await.ok_or(BUSY)?;
        self.inner.catalog.keep(kept);
        if registered.new {
            // Claims by callables have to know the new names.
            self.inner.ring_namespaces();
        }
        Ok(registered)
    }

    /// What would be registered of a text, which is only looked at.
    ///
    /// # Errors
    /// Everything that is wrong with it; [`Error::Busy`] if others are checked for too long.
    pub async fn validate(&self, text: &str) -> Result<Template> {
        let (text, environment) = (text.to_owned(), self.inner.environment.clone());
        Ok(apart(move || Template::parse(&text, environment.as_deref())).await.ok_or(BUSY)??)
    }

    /// A template as it was registered.
    ///
    /// # Errors
    /// [`Error::NoTemplate`]; else the database's.
    pub async fn template(&self, namespace: &str, name: &str, version: &str) -> Result<Template> {
        Ok(self.inner.named(namespace, name, version).await?.template.clone())
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
        let definitions = template.steps.iter().enumerate().map(|(place, step)| definition(template, place, step));
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
        let rows = self.db.ask("register a template", query).await?;
        Ok(rows.into_iter().next().ok_or(sqlx::Error::RowNotFound)?)
    }

    /// The template of that name.
    pub(crate) async fn named(&self, namespace: &str, name: &str, version: &str) -> Result<Arc<CachedTemplate>> {
        if let Some(kept) = self.catalog.by_name(namespace, name, version) {
            return Ok(kept);
        }
        let missing = || Error::NoTemplate {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            version: version.to_owned(),
        };
        if [namespace, name, version].iter().any(|part| part.contains('\0')) {
            // PostgreSQL cannot even be asked.
            return Err(missing());
        }
        let query = || sqlx::query(&self.sql.find_template).bind(namespace).bind(name).bind(version);
        let rows = self.db.ask("find a template", query).await?;
        match rows.first() {
            Some(row) => self.read(row).await,
            None => Err(missing()),
        }
    }

    /// The template of that number. `None`: there is none.
    pub(crate) async fn numbered(&self, id: i32) -> Result<Option<Arc<CachedTemplate>>> {
        if let Some(kept) = self.catalog.by_id(id) {
            return Ok(Some(kept));
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
        Ok(self.catalog.keep(apart(read).await.ok_or(BUSY)??))
    }
}

/// The beginning of a description, as lists show it. What PostgreSQL cannot store is replaced.
fn listed(description: &str) -> String {
    description.replace('\0', "\u{fffd}").chars().take(LISTED_DESCRIPTION_MAX).collect()
}

/// A step as its table has it.
fn definition(template: &Template, place: usize, step: &StepDefinition) -> Value {
    let told = |when: PublishWhen| {
        let events = step.publishes_events.iter();
        let events = events.filter(|event| event.condition == when || event.condition == PublishWhen::Always);
        events.map(|event| event.name.as_str()).collect::<Vec<_>>()
    };
    json!({
        "ordinal": place,
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
        "success_events": told(PublishWhen::Success),
        "failure_events": told(PublishWhen::Failure),
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

/// What a part that fails for good means is said by the step that divides.
fn strategy_word(template: &Template, step: &StepDefinition) -> Option<&'static str> {
    let parent = step.parents.first().filter(|_| step.kind == StepKind::BatchWorker)?;
    Some(match template.steps[*parent].batch_config.as_ref()?.failure_strategy {
        FailureStrategy::FailFast => "fail_fast",
        FailureStrategy::ContinueOnFailure => "continue_on_failure",
        FailureStrategy::Isolate => "isolate",
    })
}
