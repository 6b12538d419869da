//! The OpenAPI document of a server, and a check of responses against it.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::Value;

use crate::http::{Answer, get};

/// An OpenAPI document. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Document(Arc<Value>);

impl Document {
    /// The document of a server.
    pub(crate) async fn of(address: SocketAddr) -> Document {
        Document(Arc::new(get(address, "/openapi.json").await.json()))
    }

    /// Checks that the document describes a response, with every key.
    pub(crate) fn check(&self, method: &str, path: &str, answer: &Answer) {
        let path = path.split('?').next().unwrap_or(path);
        let operation = &self.route(path)[method.to_lowercase()];
        let described = &operation["responses"][answer.status.to_string()];
        assert!(described.is_object(), "{method} {path} {} is not described: {operation}", answer.status);
        let Some(content) = described["content"].as_object() else {
            assert_eq!(answer.body, "", "{method} {path} {}: there is to be no body", answer.status);
            return;
        };
        if let Some(json) = content.get("application/json") {
            fits(&self.0, &json["schema"], &answer.json())
                .unwrap_or_else(|why| panic!("{method} {path} {}: {why}", answer.status));
        }
    }

    /// The description of a path; if several match, the one with the fewest parameters.
    pub(crate) fn route(&self, path: &str) -> &Value {
        let parts: Vec<&str> = path.split('/').collect();
        let is_name = |part: &str| part.starts_with('{');
        let fits = |route: &str| {
            let named: Vec<&str> = route.split('/').collect();
            named.len() == parts.len() && named.iter().zip(&parts).all(|(name, part)| name == part || is_name(name))
        };
        let routes = self.0["paths"].as_object().expect("paths").iter().filter(|(route, _)| fits(route));
        let found = routes.min_by_key(|(route, _)| route.split('/').filter(|part| is_name(part)).count());
        found.unwrap_or_else(|| panic!("{path} is not described")).1
    }
}

/// The schema itself, after following references.
fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(name) => document.pointer(name.trim_start_matches('#')).unwrap_or_else(|| panic!("there is no {name}")),
        None => schema,
    }
}

/// The keys that a schema allows.
fn known<'a>(document: &'a Value, schema: &'a Value) -> Vec<&'a str> {
    let schema = resolved(document, schema);
    let parts = schema["allOf"].as_array().into_iter().flatten().flat_map(|part| known(document, part));
    schema["properties"].as_object().into_iter().flatten().map(|(key, _)| key.as_str()).chain(parts).collect()
}

/// Checks a value against a schema, as far as this document uses schemas: every key is described, and every required
/// key is present.
pub(crate) fn fits(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let schema = resolved(document, schema);
    let known = known(document, schema);
    if let Some(object) = value.as_object().filter(|_| !known.is_empty())
        && let Some(key) = object.keys().find(|key| !known.contains(&key.as_str()))
    {
        return Err(format!("{key} is not described"));
    }
    has(document, schema, value)
}

/// The same check without undescribed keys.
fn has(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let schema = resolved(document, schema);
    for part in schema["allOf"].as_array().into_iter().flatten() {
        has(document, part, value)?;
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let tried: Vec<String> = choices.iter().filter_map(|choice| fits(document, choice, value).err()).collect();
        return if tried.len() < choices.len() { Ok(()) } else { Err(tried.join("; or ")) };
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => return Ok(()),
    };
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) if kinds.contains(&"number") => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    // A payload is any JSON; the document describes it as an object without properties.
    let anything = kinds == ["object"] && schema.get("properties").is_none();
    if !anything && !kinds.contains(&kind) {
        return Err(format!("{value} is none of {kinds:?}"));
    }
    for item in value.as_array().into_iter().flatten() {
        fits(document, &schema["items"], item)?;
    }
    let Some(object) = value.as_object() else { return Ok(()) };
    for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        object.get(required).ok_or_else(|| format!("{required} is missing"))?;
    }
    for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = object.get(key) {
            fits(document, schema, value).map_err(|why| format!("{key}: {why}"))?;
        }
    }
    Ok(())
}
