//! Registering templates, and finding them again.

use std::sync::Arc;

use serde::Serialize;
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::catalog::Kept;
use crate::error::{Error, Result};
use crate::flat::flat;
use crate::flow::{Flow, Inner};
use crate::template::{Backoff, FailureStrategy, StepDefinition, StepKind, Template};

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
        let template = self.validate(text)?;
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
        self.inner.catalog.keep(Kept::new(row.try_get("id")?, template));
        Ok(registered)
    }

    /// What would be registered of a text, which is only looked at.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn validate(&self, text: &str) -> Result<Template> {
        Ok(Template::parse(text, self.inner.environment.as_deref())?)
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
        let steps = &template.steps;
        let each = |text: fn(&StepDefinition) -> String| steps.iter().map(text).collect::<Vec<_>>();
        let number = |number: fn(&StepDefinition) -> i32| steps.iter().map(number).collect::<Vec<_>>();
        let places = |places: &[usize]| places.iter().map(|place| *place as i32).collect::<Vec<_>>();
        let (parent_lasts, parents) = flat(steps.iter().map(|step| places(&step.parents)));
        let (child_lasts, children) = flat(steps.iter().map(|step| places(&step.children)));
        let document = serde_json::to_string(template).expect("a template is JSON");
        let query = || {
            sqlx::query(&self.sql.register_template)
                .bind(&template.namespace)
                .bind(&template.name)
                .bind(&template.version)
                .bind(document.clone())
                .bind(each(|step| step.name.clone()))
                .bind(each(|step| kind_letter(step.kind).to_owned()))
                .bind(steps.iter().map(|step| step.absent).collect::<Vec<_>>())
                .bind(each(|step| step.handler.callable.clone()))
                .bind(each(|step| step.handler.initialization.to_string()))
                .bind(number(|step| if step.retry.retryable { step.retry.max_attempts.into() } else { 1 }))
                .bind(each(|step| backoff_letter(step.retry.backoff).to_owned()))
                .bind(number(|step| step.retry.backoff_base_ms as i32))
                .bind(number(|step| step.retry.max_backoff_ms as i32))
                .bind(steps.iter().map(|step| step.retry.jitter).collect::<Vec<_>>())
                .bind(
                    steps.iter().map(|step| step.timeout.map(|timeout| timeout.as_millis() as i64)).collect::<Vec<_>>(),
                )
                .bind(steps.iter().map(|step| strategy_letter(template, step)).collect::<Vec<_>>())
                .bind(&parent_lasts)
                .bind(&parents)
                .bind(&child_lasts)
                .bind(&children)
        };
        let rows = self.db.ask("register a template", query).await?;
        Ok(rows.into_iter().next().ok_or(sqlx::Error::RowNotFound)?)
    }

    /// The template of that name.
    pub(crate) async fn named(&self, namespace: &str, name: &str, version: &str) -> Result<Arc<Kept>> {
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
        rows.first().map(|row| self.read(row)).transpose()?.ok_or_else(missing)
    }

    /// The template of that number. `None`: there is none.
    pub(crate) async fn numbered(&self, id: i32) -> Result<Option<Arc<Kept>>> {
        if let Some(kept) = self.catalog.by_id(id) {
            return Ok(Some(kept));
        }
        let rows = self.db.ask("load a template", || sqlx::query(&self.sql.load_template).bind(id)).await?;
        rows.first().map(|row| self.read(row)).transpose()
    }

    fn read(&self, row: &PgRow) -> Result<Arc<Kept>> {
        // What was registered was chosen for its environment then.
        let template = Template::parse(row.try_get("document")?, None)?;
        Ok(self.catalog.keep(Kept::new(row.try_get("id")?, template)))
    }
}

fn kind_letter(kind: StepKind) -> &'static str {
    match kind {
        StepKind::Standard => "s",
        StepKind::Decision => "d",
        StepKind::DeferredConvergence => "c",
        StepKind::Batchable => "b",
        StepKind::BatchWorker => "w",
    }
}

fn backoff_letter(backoff: Backoff) -> &'static str {
    match backoff {
        Backoff::None => "n",
        Backoff::Linear => "l",
        Backoff::Exponential => "e",
        Backoff::Fibonacci => "f",
    }
}

/// What a part that fails for good means is said by the step that divides.
fn strategy_letter(template: &Template, step: &StepDefinition) -> Option<&'static str> {
    let parent = step.parents.first().filter(|_| step.kind == StepKind::BatchWorker)?;
    Some(match template.steps[*parent].batch_config.as_ref()?.failure_strategy {
        FailureStrategy::FailFast => "f",
        FailureStrategy::ContinueOnFailure => "c",
        FailureStrategy::Isolate => "i",
    })
}
