//! A template as it is written in YAML or JSON, with the position of every value that can be wrong.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_saphyr::{Location, Spanned};

use super::fault::Faults;
use super::free::Free;

/// Values in a template: a step of the usual size has fifteen.
const VALUES_MAX: usize = 2_000_000;

/// Nesting levels of a template: as many as any request body may have.
const DEPTH_MAX: usize = reveille_web::MAX_DEPTH;

/// A template as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    pub(super) name: Spanned<String>,
    #[serde(alias = "namespace")]
    pub(super) namespace_name: Option<Spanned<String>>,
    pub(super) version: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) description: String,
    pub(super) identity_strategy: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) lifecycle: Lifecycle,
    pub(super) input_schema: Option<Spanned<Free>>,
    #[serde(default)]
    pub(super) steps: Vec<Step>,
    #[serde(default)]
    pub(super) environments: BTreeMap<String, Environment>,
    /// Numbers of values of any form that would be stored changed, and what is wrong with them.
    #[serde(skip)]
    pub(super) inexact: Vec<(Location, String)>,
}

impl Document {
    /// The values of any form.
    fn free(&self) -> impl Iterator<Item = &Spanned<Free>> {
        let steps = self.steps.iter().flat_map(|step| {
            let hints = step.batch_config.iter().flat_map(|batch| &batch.value.hints).map(|(_, hint)| hint);
            let initialization = step.handler.as_ref().and_then(|handler| handler.initialization.as_ref());
            step.result_schema.iter().chain(initialization).chain(hints)
        });
        let changed = self.environments.values().flat_map(|environment| &environment.steps);
        let changed = changed.filter_map(|changed| changed.handler.as_ref()?.initialization.as_ref());
        self.input_schema.iter().chain(steps).chain(changed)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    pub(super) name: Spanned<String>,
    #[serde(default)]
    pub(super) description: String,
    #[serde(rename = "type")]
    pub(super) kind: Option<Spanned<String>>,
    pub(super) handler: Option<Handler>,
    #[serde(default)]
    pub(super) dependencies: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) retry: Retry,
    pub(super) timeout_seconds: Option<Spanned<f64>>,
    #[serde(default)]
    pub(super) publishes_events: Vec<Event>,
    pub(super) batch_config: Option<Spanned<Batch>>,
    pub(super) result_schema: Option<Spanned<Free>>,
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Handler {
    pub(super) callable: Option<Spanned<String>>,
    pub(super) initialization: Option<Spanned<Free>>,
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Retry {
    pub(super) retryable: Option<bool>,
    pub(super) max_attempts: Option<Spanned<i64>>,
    pub(super) backoff: Option<Spanned<String>>,
    pub(super) backoff_base_ms: Option<Spanned<i64>>,
    pub(super) max_backoff_ms: Option<Spanned<i64>>,
    pub(super) jitter: Option<Spanned<f64>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Event {
    pub(super) name: Spanned<String>,
    pub(super) condition: Option<Spanned<String>>,
}

/// `flatten` of serde would lose the positions of the hints.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) worker_template: Option<String>,
    pub(super) failure_strategy: Option<String>,
    pub(super) hints: Vec<(String, Spanned<Free>)>,
}

impl<'de> Deserialize<'de> for Batch {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Batch, D::Error> {
        struct BatchVisitor;

        impl<'de> Visitor<'de> for BatchVisitor {
            type Value = Batch;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the settings of a batch")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Batch, A::Error> {
                let mut batch = Batch::default();
                while let Some(name) = from.next_key::<String>()? {
                    match name.as_str() {
                        "worker_template" => batch.worker_template = from.next_value()?,
                        "failure_strategy" => batch.failure_strategy = from.next_value()?,
                        _ => batch.hints.push((name, from.next_value()?)),
                    }
                }
                Ok(batch)
            }
        }

        from.deserialize_map(BatchVisitor)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lifecycle {
    pub(super) max_duration_minutes: Option<Spanned<f64>>,
    pub(super) max_waiting_for_dependencies_minutes: Option<Spanned<f64>>,
    pub(super) max_waiting_for_retry_minutes: Option<Spanned<f64>>,
    pub(super) max_steps_in_process_minutes: Option<Spanned<f64>>,
    pub(super) staleness_action: Option<Spanned<String>>,
}

/// The overrides of an environment.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Environment {
    #[serde(default)]
    pub(super) steps: Vec<Changed>,
}

/// A step in an environment: fields that are not given are not overridden.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Changed {
    pub(super) name: Spanned<String>,
    pub(super) handler: Option<Handler>,
    pub(super) retry: Option<Retry>,
    pub(super) timeout_seconds: Option<Spanned<f64>>,
}

/// Parses the text. JSON is valid YAML.
pub(super) fn read(text: &str) -> Result<Document, Faults> {
    let mut options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    if let Some(budget) = &mut options.budget {
        (budget.max_nodes, budget.max_events) = (VALUES_MAX, 2 * VALUES_MAX);
        budget.max_depth = DEPTH_MAX;
    }
    let mut document: Document = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let message = error.to_string();
        // The position is reported separately.
        let message = message.split(" at line ").next().unwrap_or_default().trim().to_owned();
        Faults::one(error.location().unwrap_or(Location::UNKNOWN), reveille_web::plain(&message))
    })?;
    let inexact = document.free().flat_map(|free| Free::inexact(free, text)).collect();
    document.inexact = inexact;
    Ok(document)
}
