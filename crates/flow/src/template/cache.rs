//! The templates that this process has loaded. A registered template never changes, so a cached one stays valid.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use crate::json::Json;
use crate::template::Template;
use crate::template::schema::{Schema, SchemaError};

/// The most cached templates. Beyond it the cache is cleared.
const TEMPLATES_MAX: usize = 1_000;
/// The most bytes of cached templates, approximately; the same beyond it. A template of 10 000 steps has about 20 MB.
const BYTES_MAX: usize = 256 << 20;
/// Bytes in memory for each byte of a template's text.
const BYTES_PER_BYTE: usize = 8;

/// A schema, or why it cannot be used: templates registered by an older version may exceed the limits.
type Usable = Result<Arc<Schema>, String>;

/// A registered template.
#[derive(Debug)]
pub(crate) struct CachedTemplate {
    pub(crate) id: i32,
    pub(crate) template: Template,
    input: Option<Usable>,
    /// By the index of the step.
    results: HashMap<usize, Usable>,
    /// Approximate size in memory.
    bytes: usize,
    /// Priorities whose step queues exist.
    queues: Mutex<Vec<i16>>,
}

impl CachedTemplate {
    pub(crate) fn new(id: i32, template: Template) -> CachedTemplate {
        let ready = |schema: &Value| Schema::new(schema).map(Arc::new);
        let results = template.steps.iter().enumerate();
        let results = results.filter_map(|(index, step)| Some((index, ready(step.result_schema.as_ref()?))));
        let results: HashMap<usize, Usable> = results.collect();
        let input = template.input_schema.as_ref().map(ready);
        let schemas = input.iter().chain(results.values()).flatten().map(|schema| schema.bytes());
        let text = serde_json::to_string(&template).map_or(0, |text| text.len());
        let bytes = schemas.sum::<usize>() + text * BYTES_PER_BYTE;
        CachedTemplate { id, input, results, template, bytes, queues: Mutex::default() }
    }

    /// Validates a context.
    pub(crate) async fn allows_context(&self, context: &Json) -> Result<(), SchemaError> {
        validate(self.input.as_ref(), context).await
    }

    /// Validates a result of the step with this index.
    pub(crate) async fn allows_result(&self, index: usize, result: &Json) -> Result<(), SchemaError> {
        validate(self.results.get(&index), result).await
    }

    pub(crate) fn has_queues(&self, priority: i16) -> bool {
        self.queues.lock().contains(&priority)
    }

    pub(crate) fn note_queues(&self, priority: i16) {
        self.queues.lock().push(priority);
    }
}

async fn validate(schema: Option<&Usable>, json: &Json) -> Result<(), SchemaError> {
    match schema {
        None => Ok(()),
        Some(Ok(schema)) => {
            let value = json.value().map_err(|reason| SchemaError::Invalid(format!("cannot be parsed: {reason}")))?;
            schema.check(&value).await
        }
        Some(Err(reason)) => Err(SchemaError::Invalid(format!(
            "the template's schema cannot be used: {reason}; register another version"
        ))),
    }
}

#[derive(Default)]
pub(crate) struct TemplateCache(Mutex<Templates>);

#[derive(Default)]
struct Templates {
    bytes: usize,
    by_id: HashMap<i32, Arc<CachedTemplate>>,
    by_name: HashMap<[String; 3], Arc<CachedTemplate>>,
}

impl TemplateCache {
    pub(crate) fn by_id(&self, id: i32) -> Option<Arc<CachedTemplate>> {
        self.0.lock().by_id.get(&id).cloned()
    }

    pub(crate) fn by_name(&self, namespace: &str, name: &str, version: &str) -> Option<Arc<CachedTemplate>> {
        self.0.lock().by_name.get(&[namespace, name, version].map(str::to_owned)).cloned()
    }

    /// Adds a template, and returns the cached one: an existing entry is kept.
    pub(crate) fn insert(&self, cached: CachedTemplate) -> Arc<CachedTemplate> {
        let mut templates = self.0.lock();
        if templates.by_id.len() >= TEMPLATES_MAX || templates.bytes + cached.bytes > BYTES_MAX {
            *templates = Templates::default();
        }
        let Template { namespace, name, version, .. } = &cached.template;
        let key = [namespace, name, version].map(String::clone);
        let bytes = if templates.by_id.contains_key(&cached.id) { 0 } else { cached.bytes };
        templates.bytes += bytes;
        let cached = templates.by_id.entry(cached.id).or_insert_with(|| Arc::new(cached)).clone();
        templates.by_name.insert(key, cached.clone());
        cached
    }
}
