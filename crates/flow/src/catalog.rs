//! The templates that this process knows. They never change, so what was read once is true for ever.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::json::Json;
use crate::template::Template;
use crate::template::schema::{Schema, SchemaError};

/// Templates remembered; beyond it all are forgotten, and read again.
const TEMPLATES_MAX: usize = 1_000;
/// Bytes that they may occupy together, roughly; the same beyond it. A template of 10 000 steps is about twenty megabytes.
const BYTES_MAX: usize = 256 << 20;
/// Bytes in memory for each byte of a template's text.
const BYTES_PER_BYTE: usize = 8;

/// A schema, or why it cannot be used. A template that was registered before there was a bound may have one beyond it.
type Usable = Result<Arc<Schema>, String>;

/// A template that is registered.
#[derive(Debug)]
pub(crate) struct CachedTemplate {
    pub(crate) id: i32,
    pub(crate) template: Template,
    input: Option<Usable>,
    /// By the places of steps.
    results: HashMap<usize, Usable>,
    /// Bytes that it occupies, roughly.
    bytes: usize,
    /// Priorities whose step queues exist.
    queues: Mutex<Vec<i16>>,
}

impl CachedTemplate {
    pub(crate) fn new(id: i32, template: Template) -> CachedTemplate {
        let ready = |schema: &Value| Schema::new(schema).map(Arc::new);
        let results = template.steps.iter().enumerate();
        let results = results.filter_map(|(place, step)| Some((place, ready(step.result_schema.as_ref()?))));
        let results: HashMap<usize, Usable> = results.collect();
        let input = template.input_schema.as_ref().map(ready);
        let schemas = input.iter().chain(results.values()).flatten().map(|schema| schema.bytes());
        let text = serde_json::to_string(&template).map_or(0, |text| text.len());
        let bytes = schemas.sum::<usize>() + text * BYTES_PER_BYTE;
        CachedTemplate { id, input, results, template, bytes, queues: Mutex::default() }
    }

    /// Whether a context is what the template allows; if not, why.
    pub(crate) async fn allows_context(&self, context: &Json) -> Result<(), SchemaError> {
        fits(self.input.as_ref(), context).await
    }

    /// Whether a result is what the template allows of the step at that place; if not, why.
    pub(crate) async fn allows_result(&self, place: usize, result: &Json) -> Result<(), SchemaError> {
        fits(self.results.get(&place), result).await
    }

    pub(crate) fn has_queues(&self, priority: i16) -> bool {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).contains(&priority)
    }

    pub(crate) fn note_queues(&self, priority: i16) {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).push(priority);
    }
}

async fn fits(schema: Option<&Usable>, json: &Json) -> Result<(), SchemaError> {
    match schema {
        None => Ok(()),
        Some(Ok(schema)) => {
            let value =
                json.value().map_err(|reason| SchemaError::Invalid(format!("it cannot be compared: {reason}")))?;
            schema.check(&value).await
        }
        Some(Err(reason)) => Err(SchemaError::Invalid(format!(
            "the template's schema cannot be used: {reason}; register another version"
        ))),
    }
}

#[derive(Default)]
pub(crate) struct Catalog(Mutex<Known>);

#[derive(Default)]
struct Known {
    bytes: usize,
    by_id: HashMap<i32, Arc<CachedTemplate>>,
    by_name: HashMap<[String; 3], Arc<CachedTemplate>>,
}

impl Catalog {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn by_id(&self, id: i32) -> Option<Arc<CachedTemplate>> {
        self.known().by_id.get(&id).cloned()
    }

    pub(crate) fn by_name(&self, namespace: &str, name: &str, version: &str) -> Option<Arc<CachedTemplate>> {
        self.known().by_name.get(&[namespace, name, version].map(str::to_owned)).cloned()
    }

    /// Keeps it, unless somebody else has.
    pub(crate) fn keep(&self, kept: CachedTemplate) -> Arc<CachedTemplate> {
        let mut known = self.known();
        if known.by_id.len() >= TEMPLATES_MAX || known.bytes + kept.bytes > BYTES_MAX {
            *known = Known::default();
        }
        let Template { namespace, name, version, .. } = &kept.template;
        let key = [namespace, name, version].map(String::clone);
        let bytes = if known.by_id.contains_key(&kept.id) { 0 } else { kept.bytes };
        known.bytes += bytes;
        let kept = known.by_id.entry(kept.id).or_insert_with(|| Arc::new(kept)).clone();
        known.by_name.insert(key, kept.clone());
        kept
    }
}
