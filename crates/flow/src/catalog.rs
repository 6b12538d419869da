//! The templates that this process knows. They never change, so what was read once is true for ever.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jsonschema::Validator;
use serde_json::Value;

use crate::template::Template;

/// Templates remembered; beyond it all are forgotten, and read again.
const TEMPLATES_MAX: usize = 1_000;
/// Reasons that are told why a value is not what a schema describes.
const REASONS_MAX: usize = 5;

/// A template that is registered.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) id: i32,
    pub(crate) template: Template,
    input: Option<Validator>,
    /// By the places of steps.
    results: HashMap<usize, Validator>,
    /// Priorities whose lanes are there.
    lanes: Mutex<Vec<i16>>,
}

impl Kept {
    pub(crate) fn new(id: i32, template: Template) -> Kept {
        // That they are schemas was checked when the template was read.
        let ready = |schema: &Value| jsonschema::validator_for(schema).ok();
        let results = template.steps.iter().enumerate();
        let results = results.filter_map(|(place, step)| Some((place, ready(step.result_schema.as_ref()?)?))).collect();
        Kept { id, input: template.input_schema.as_ref().and_then(ready), results, template, lanes: Mutex::default() }
    }

    /// Whether a context is what the template allows; if not, why.
    pub(crate) fn allows_context(&self, context: &Value) -> Result<(), String> {
        self.input.as_ref().map_or(Ok(()), |schema| fits(schema, context))
    }

    /// Whether a result is what the template allows of the step at that place; if not, why.
    pub(crate) fn allows_result(&self, place: usize, result: &Value) -> Result<(), String> {
        self.results.get(&place).map_or(Ok(()), |schema| fits(schema, result))
    }

    pub(crate) fn has_lanes(&self, priority: i16) -> bool {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).contains(&priority)
    }

    pub(crate) fn note_lanes(&self, priority: i16) {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).push(priority);
    }
}

fn fits(schema: &Validator, value: &Value) -> Result<(), String> {
    let reasons = schema.iter_errors(value).take(REASONS_MAX).map(|error| match error.instance_path().to_string() {
        path if path.is_empty() => error.to_string(),
        path => format!("{path}: {error}"),
    });
    let reasons: Vec<String> = reasons.collect();
    if reasons.is_empty() { Ok(()) } else { Err(reasons.join("; ")) }
}

#[derive(Default)]
pub(crate) struct Catalog(Mutex<Known>);

#[derive(Default)]
struct Known {
    by_id: HashMap<i32, Arc<Kept>>,
    by_name: HashMap<[String; 3], Arc<Kept>>,
}

impl Catalog {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn by_id(&self, id: i32) -> Option<Arc<Kept>> {
        self.known().by_id.get(&id).cloned()
    }

    pub(crate) fn by_name(&self, namespace: &str, name: &str, version: &str) -> Option<Arc<Kept>> {
        self.known().by_name.get(&[namespace, name, version].map(str::to_owned)).cloned()
    }

    /// Keeps it, unless somebody else has.
    pub(crate) fn keep(&self, kept: Kept) -> Arc<Kept> {
        let mut known = self.known();
        if known.by_id.len() >= TEMPLATES_MAX {
            *known = Known::default();
        }
        let Template { namespace, name, version, .. } = &kept.template;
        let key = [namespace, name, version].map(String::clone);
        let kept = known.by_id.entry(kept.id).or_insert_with(|| Arc::new(kept)).clone();
        known.by_name.insert(key, kept.clone());
        kept
    }
}
