//! A template as it is written in YAML or JSON, with the position of every value that can be wrong.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use serde_saphyr::{Location, Spanned};

use super::fault::Faults;

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
    pub(super) input_schema: Option<Spanned<Value>>,
    #[serde(default)]
    pub(super) steps: Vec<Step>,
    #[serde(default)]
    pub(super) environments: BTreeMap<String, Environment>,
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
    pub(super) result_schema: Option<Spanned<Value>>,
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Handler {
    pub(super) callable: Option<Spanned<String>>,
    pub(super) initialization: Option<Value>,
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

#[derive(Debug, Deserialize)]
pub(super) struct Batch {
    pub(super) worker_template: Option<String>,
    pub(super) failure_strategy: Option<String>,
    #[serde(flatten)]
    pub(super) hints: Map<String, Value>,
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
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let message = error.to_string();
        // The position is reported separately.
        let message = message.split(" at line ").next().unwrap_or_default().trim().to_owned();
        Faults::one(error.location().unwrap_or(Location::UNKNOWN), reveille_web::plain(&message))
    })
}
