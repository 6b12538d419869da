//! The size of a JSON Schema with its references expanded, computed before the schema is compiled.
//!
//! References make a schema a graph: twenty definitions that each refer to the next one twice expand to a million
//! subschemas. [`Shape::of`] follows every reference once, adds up the expanded size, and rejects schemas beyond the
//! limits. A reference back to a subschema that is being followed counts as one: trees are legitimate, and how deep
//! they go depends on the value. A cycle that never descends into the value is meaningless, and is rejected.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// The most subschemas of an expanded schema. One of the largest public schemas, that of a Kubernetes pod, has about
/// ten thousand.
pub(crate) const EXPANDED_MAX: u64 = 100_000;
/// The deepest nesting of subschemas with references followed: each level takes a few stack frames.
pub(crate) const DEPTH_MAX: usize = 100;
/// The most values (objects, lists, texts, numbers) in a schema.
pub(crate) const VALUES_MAX: usize = 50_000;
/// The most regular expressions in a schema.
pub(crate) const PATTERNS_MAX: usize = 200;
/// The longest regular expression, in bytes.
pub(crate) const PATTERN_BYTES_MAX: usize = 2_000;
/// The expanded size of a JSON Schema meta-schema, which comes with the validator.
const META: u64 = 1_000;

/// Keywords with subschemas: for the same value or for parts of it, single, in lists and in maps.
const SAME: [&str; 4] = ["not", "if", "then", "else"];
const SAME_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const SAME_MAPS: [&str; 2] = ["dependentSchemas", "dependencies"];
const PARTS: [&str; 7] = [
    "additionalProperties",
    "propertyNames",
    "items",
    "additionalItems",
    "contains",
    "unevaluatedItems",
    "unevaluatedProperties",
];
const PART_LISTS: [&str; 2] = ["items", "prefixItems"];
const PART_MAPS: [&str; 2] = ["properties", "patternProperties"];
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// The size of a schema.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Subschemas with every reference expanded.
    pub(crate) expanded: u64,
    /// Regular expressions.
    pub(crate) patterns: usize,
    /// The most regular expressions for property names in one subschema.
    pub(crate) name_patterns: usize,
}

impl Shape {
    /// Measures a schema. `Err` says which limit it exceeds.
    pub(crate) fn of(schema: &Value) -> Result<Shape, String> {
        let mut walk = Walk::default();
        walk.count(schema, 0)?;
        let expanded = walk.follow(schema, schema, 0, 0)?;
        if expanded > EXPANDED_MAX {
            return Err(format!("expands to more than {EXPANDED_MAX} subschemas"));
        }
        Ok(Shape { expanded, ..walk.shape })
    }
}

#[derive(Default)]
struct Walk<'a> {
    shape: Shape,
    values: usize,
    /// Subschemas by their `$id`.
    ids: HashMap<&'a str, &'a Value>,
    /// Expanded sizes of subschemas by address.
    known: HashMap<usize, u64>,
    /// Subschemas that are being followed, with the depth in the value at which each was reached.
    under_way: HashMap<usize, usize>,
}

fn address(value: &Value) -> usize {
    std::ptr::from_ref(value).addr()
}

impl<'a> Walk<'a> {
    /// Counts all values and collects subschemas with an `$id`.
    fn count(&mut self, value: &'a Value, depth: usize) -> Result<(), String> {
        self.values += 1;
        if self.values > VALUES_MAX {
            return Err(format!("has more than {VALUES_MAX} values"));
        }
        if depth > 2 * DEPTH_MAX {
            return Err(format!("nested more than {} levels deep", 2 * DEPTH_MAX));
        }
        match value {
            Value::Array(values) => values.iter().try_for_each(|value| self.count(value, depth + 1)),
            Value::Object(members) => {
                if let Some(id) = members.get("$id").or(members.get("id")).and_then(Value::as_str) {
                    let id = id.trim_end_matches('#');
                    self.ids.insert(id, value);
                    self.ids.insert(last_segment(id), value);
                }
                members.values().try_for_each(|value| self.count(value, depth + 1))
            }
            _ => Ok(()),
        }
    }

    /// The expanded size of a subschema; `within` is the resource that its references are relative to.
    fn follow(&mut self, schema: &'a Value, within: &'a Value, depth: usize, into: usize) -> Result<u64, String> {
        let Value::Object(keywords) = schema else { return Ok(1) };
        if let Some(expanded) = self.known.get(&address(schema)) {
            return Ok(*expanded);
        }
        if let Some(then) = self.under_way.get(&address(schema)) {
            return if *then < into {
                Ok(1)
            } else {
                Err("contains a reference cycle that does not descend into the value".to_owned())
            };
        }
        if depth > DEPTH_MAX {
            return Err(format!("subschemas are nested more than {DEPTH_MAX} levels deep with references followed"));
        }
        self.under_way.insert(address(schema), into);
        let within = if keywords.get("$id").is_some_and(Value::is_string) { schema } else { within };
        self.patterns(keywords)?;
        let mut same = 0_u64;
        for (subschema, goes_into) in subschemas(keywords) {
            let expanded = self.follow(subschema, within, depth + 1, into + usize::from(goes_into))?;
            same = same.saturating_add(expanded);
        }
        for reference in REFERENCES.iter().filter_map(|keyword| keywords.get(*keyword)?.as_str()) {
            let expanded = match self.target(reference, within)? {
                Some((target, resource)) => self.follow(target, resource, depth + 1, into)?,
                None => META,
            };
            same = same.saturating_add(expanded);
        }
        // The validator finds unevaluated items and properties by evaluating the rest again.
        let again =
            ["unevaluatedItems", "unevaluatedProperties"].iter().filter(|keyword| keywords.contains_key(**keyword));
        let expanded = same.saturating_mul(1 << again.count()).saturating_add(1);
        self.under_way.remove(&address(schema));
        self.known.insert(address(schema), expanded);
        Ok(expanded)
    }

    fn patterns(&mut self, keywords: &'a Map<String, Value>) -> Result<(), String> {
        let names = keywords.get("patternProperties").and_then(Value::as_object);
        let names = names.into_iter().flat_map(Map::keys).map(String::as_str);
        let names: Vec<&str> = names.collect();
        self.shape.name_patterns = self.shape.name_patterns.max(names.len());
        for pattern in names.into_iter().chain(keywords.get("pattern").and_then(Value::as_str)) {
            self.shape.patterns += 1;
            if self.shape.patterns > PATTERNS_MAX {
                return Err(format!("has more than {PATTERNS_MAX} regular expressions"));
            }
            if pattern.len() > PATTERN_BYTES_MAX {
                let length = pattern.len();
                return Err(format!(
                    "contains a regular expression of {length} bytes: at most {PATTERN_BYTES_MAX} are allowed"
                ));
            }
        }
        Ok(())
    }

    /// The target of a reference and its resource. `None`: a JSON Schema meta-schema.
    fn target(&self, reference: &str, within: &'a Value) -> Result<Option<(&'a Value, &'a Value)>, String> {
        let (resource, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        if ["http://json-schema.org/", "https://json-schema.org/"].iter().any(|meta| resource.starts_with(meta)) {
            return Ok(None);
        }
        let named = || self.ids.get(resource).or_else(|| self.ids.get(last_segment(resource))).copied();
        let resource = if resource.is_empty() { Some(within) } else { named() };
        let fragment = decoded(fragment);
        let target = resource.and_then(|resource| {
            let target = if fragment.is_empty() || fragment.starts_with('/') {
                resource.pointer(&fragment)
            } else {
                anchored(resource, &fragment)
            };
            Some((target?, resource))
        });
        let shown: String = reference.chars().take(100).collect();
        target.map(Some).ok_or_else(|| format!("reference {shown:?} does not resolve to a subschema"))
    }
}

/// The direct subschemas, and whether each applies to a part of the value.
fn subschemas(keywords: &Map<String, Value>) -> Vec<(&Value, bool)> {
    let is_schema = |value: &&Value| value.is_object() || value.is_boolean();
    let one = |name: &&str| keywords.get(*name).filter(is_schema);
    let list = |name: &&str| keywords.get(*name).and_then(Value::as_array).into_iter().flatten();
    let map = |name: &&str| keywords.get(*name).and_then(Value::as_object).into_iter().flat_map(Map::values);
    let same =
        SAME.iter().filter_map(one).chain(SAME_LISTS.iter().flat_map(list)).chain(SAME_MAPS.iter().flat_map(map));
    let parts =
        PARTS.iter().filter_map(one).chain(PART_LISTS.iter().flat_map(list)).chain(PART_MAPS.iter().flat_map(map));
    same.filter(is_schema)
        .map(|schema| (schema, false))
        .chain(parts.filter(is_schema).map(|schema| (schema, true)))
        .collect()
}

fn last_segment(id: &str) -> &str {
    id.rsplit('/').next().unwrap_or(id)
}

/// The subschema with that anchor.
fn anchored<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Array(values) => values.iter().find_map(|value| anchored(value, name)),
        Value::Object(members) => {
            let is = |keyword: &&str| members.get(*keyword).and_then(Value::as_str) == Some(name);
            let old = members.get("$id").and_then(Value::as_str).and_then(|id| id.strip_prefix('#')) == Some(name);
            let here = old || ["$anchor", "$dynamicAnchor"].iter().any(is);
            if here { Some(value) } else { members.values().find_map(|value| anchored(value, name)) }
        }
        _ => None,
    }
}

/// Decodes the percent escapes of a URI fragment.
fn decoded(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| *first == b'%').and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Definitions that each refer to the next one `width` times.
    fn doubling(levels: usize, width: usize) -> Value {
        let mut definitions = Map::new();
        for level in 0..levels {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            definitions.insert(format!("d{level}"), json!({"anyOf": vec![next; width]}));
        }
        definitions.insert(format!("d{levels}"), json!({"type": "string"}));
        json!({"$defs": definitions, "$ref": "#/$defs/d0"})
    }

    /// A schema that expands beyond the limit is rejected; a recursive tree is not.
    #[test]
    fn schemas_that_expand_beyond_the_limit_are_rejected() {
        assert_eq!(Shape::of(&doubling(3, 1)).map(|shape| shape.expanded), Ok(8));
        assert!(Shape::of(&doubling(10, 2)).is_ok());
        for (levels, width) in [(16, 2), (24, 2), (40, 2), (3, 100)] {
            let error = Shape::of(&doubling(levels, width)).expect_err("too large");
            assert!(error.contains("expands to more than 100000 subschemas"), "{error}");
        }
        let tree = json!({
            "$defs": {"node": {"type": "object", "properties": {
                "left": {"$ref": "#/$defs/node"}, "right": {"$ref": "#/$defs/node"}
            }}},
            "items": {"$ref": "#/$defs/node"}
        });
        assert!(Shape::of(&tree).is_ok());
    }

    /// `unevaluatedProperties` evaluates everything below it again, so it counts twice.
    #[test]
    fn unevaluated_properties_count_twice() {
        let mut schema = json!({"properties": {"a": true}});
        for _ in 0..30 {
            schema = json!({"allOf": [schema], "unevaluatedProperties": false});
        }
        assert!(Shape::of(&schema).is_err());
    }

    /// References in every form resolve within the schema, and nowhere else.
    #[test]
    fn references_resolve_within_the_schema_only() {
        for (reference, expected) in [
            ("#", true),
            ("#/$defs/a", true),
            ("#/$defs/b~1c", true),
            ("#/%24defs/a", true),
            ("#here", true),
            ("inner", true),
            ("https://example.org/inner", true),
            ("inner#/$defs/x", true),
            ("https://json-schema.org/draft/2020-12/schema", true),
            ("#/$defs/none", false),
            ("#nowhere", false),
            ("http://127.0.0.1:1/schema", false),
            ("file:///etc/passwd", false),
        ] {
            let schema = json!({
                "$defs": {
                    "a": {}, "b/c": {}, "d": {"$anchor": "here"},
                    "e": {"$id": "https://example.org/inner", "$defs": {"x": {}}}
                },
                "properties": {"p": {"$ref": reference}}
            });
            assert_eq!(Shape::of(&schema).is_ok(), expected, "{reference}: {:?}", Shape::of(&schema));
        }
    }

    /// A cycle that stays at the same value is rejected; one that descends into it is allowed.
    #[test]
    fn only_cycles_that_descend_into_the_value_are_allowed() {
        let of =
            |keyword: &str, value: Value| Shape::of(&json!({"$defs": {"a": {keyword: value}}, "$ref": "#/$defs/a"}));
        let a = || json!({"$ref": "#/$defs/a"});
        for same in ["allOf", "anyOf", "oneOf"] {
            assert!(of(same, json!([a()])).is_err(), "{same}");
        }
        assert!(of("not", a()).is_err());
        assert!(of("$ref", json!("#/$defs/a")).is_err());
        for part in PARTS {
            assert!(of(part, a()).is_ok(), "{part}");
        }
        assert!(of("properties", json!({"x": a()})).is_ok());
        assert!(of("prefixItems", json!([a()])).is_ok());
    }

    /// Depth, number of values, number and length of patterns each have a limit.
    #[test]
    fn every_limit_is_enforced() {
        let chain = |levels: usize| doubling(levels, 1);
        assert!(Shape::of(&chain(30)).is_ok());
        assert!(Shape::of(&chain(200)).expect_err("deep").contains("levels deep"));
        let nested = (0..300).fold(json!({}), |inner, _| json!({"not": inner}));
        assert!(Shape::of(&nested).expect_err("deep").contains("levels deep"));
        assert!(Shape::of(&json!({"enum": vec![1; VALUES_MAX]})).expect_err("large").contains("values"));
        assert!(Shape::of(&json!({"pattern": "a".repeat(PATTERN_BYTES_MAX + 1)})).expect_err("long").contains("bytes"));
        let many: Map<String, Value> = (0..=PATTERNS_MAX).map(|n| (format!("^{n}$"), json!(true))).collect();
        assert!(Shape::of(&json!({"patternProperties": many})).expect_err("many").contains("regular expressions"));
    }
}
