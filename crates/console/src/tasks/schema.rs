//! The fields of a form, from the JSON Schema of a template.
//!
//! Only what a form can express is made into fields: an object of texts, numbers, flags and choices, nested up to a
//! depth. Everything else is one field for JSON. The server validates the result either way.

use crate::{Field, Json};

/// The deepest nesting of fields; deeper objects are JSON.
const DEPTH_MAX: usize = 3;
/// The most fields of a form.
const FIELDS_MAX: usize = 100;

/// The fields of a value at `path`. One field for JSON, if the schema is not an object with properties.
pub(super) fn fields(path: &str, schema: &Json) -> Vec<Field> {
    let mut fields = Vec::new();
    let whole = || vec![Field::json(path, "Context").value(&Json::Object(Vec::new()))];
    let is_closed = !schema["properties"].members().is_empty() && schema["type"].text() == "object";
    if !is_closed || add(&mut fields, path, "", schema, 0).is_none() || fields.is_empty() {
        return whole();
    }
    fields
}

/// Adds the fields of an object's properties. `None`: there are too many, or a name that cannot be part of a path.
fn add(fields: &mut Vec<Field>, path: &str, label: &str, schema: &Json, depth: usize) -> Option<()> {
    let required: Vec<&str> = schema["required"].items().iter().map(Json::text).collect();
    for (name, property) in schema["properties"].members() {
        let is_index = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
        if name.is_empty() || name.contains('.') || is_index || name.starts_with('?') || fields.len() >= FIELDS_MAX {
            return None;
        }
        let path = format!("{path}.{name}");
        let shown = property["title"].as_text().unwrap_or(name);
        let label = if label.is_empty() { shown.to_owned() } else { format!("{label} / {shown}") };
        let is_object = property["type"].text() == "object" && !property["properties"].members().is_empty();
        if is_object && depth < DEPTH_MAX {
            add(fields, &path, &label, property, depth + 1)?;
            continue;
        }
        let mut field = field(&path, &label, property).note(property["description"].text());
        if !property["default"].is_null() {
            field = field.value(&property["default"]);
        }
        let is_flag = property["type"].text() == "boolean";
        fields.push(if required.contains(&name.as_str()) && !is_flag { field.required() } else { field });
    }
    Some(())
}

fn field(path: &str, label: &str, schema: &Json) -> Field {
    let choices = schema["enum"].items();
    if !choices.is_empty() && choices.iter().all(|choice| choice.as_text().is_some()) {
        return Field::choice(path, label, choices.iter().map(Json::text));
    }
    match schema["type"].text() {
        "string" if schema["format"].text() == "date-time" => Field::time(path, label),
        "string" => Field::text(path, label),
        "integer" | "number" => Field::number(path, label),
        "boolean" => Field::flag(path, label),
        _ => Field::json(path, label),
    }
}

#[cfg(test)]
mod tests {
    use maud::Render as _;

    use super::*;

    fn form(schema: &str) -> String {
        let fields = fields("context", &Json::parse(schema).expect("JSON"));
        fields.iter().map(|field| field.render().into_string()).collect()
    }

    /// Each type has its field, nested objects have labels with their path, and required ones are required.
    #[test]
    fn a_schema_becomes_fields() {
        let form = form(
            r#"{"type":"object","required":["id"],"properties":{"id":{"type":"integer"},"kind":{"enum":["a","b"]},
                "gift":{"type":"boolean","default":true},"to":{"type":"object","properties":{"city":{"type":"string"}}},
                "lines":{"type":"array"}}}"#,
        );
        for part in [
            r#"data-path="context.id" data-kind="number""#,
            r#"<option>b</option>"#,
            r#"data-path="context.gift" data-kind="flag" checked"#,
            r#"data-path="context.to.city" data-kind="text""#,
            "to / city",
            r#"data-path="context.lines" data-kind="json""#,
        ] {
            assert!(form.contains(part), "{part} is missing in {form}");
        }
        assert_eq!(form.matches("required").count(), 1, "{form}");
    }

    /// A schema that a form cannot express becomes one field for JSON.
    #[test]
    fn other_schemas_become_json() {
        for schema in ["true", "null", r#"{"type":"array"}"#, r#"{"type":"object","properties":{"a.b":{}}}"#] {
            let form = form(schema);
            assert!(form.contains(r#"data-path="context" data-kind="json""#), "{schema}: {form}");
        }
    }
}
