use std::time::Instant;

use serde_json::{Map, json};

use super::*;

fn schema(schema: Value) -> Arc<Schema> {
    Arc::new(Schema::new(&schema).unwrap_or_else(|error| panic!("{error}")))
}

/// The counting view gives the validator the same values as a plain one, for every kind of keyword: each schema is
/// tested with a valid and an invalid value.
#[tokio::test]
async fn every_keyword_accepts_and_rejects_as_specified() {
    for (keywords, good, bad) in [
        (json!({"type": "object", "required": ["a"]}), json!({"a": 1}), json!({"b": 1})),
        (json!({"properties": {"a": {"type": "integer"}}}), json!({"a": 1.0}), json!({"a": 1.5})),
        (json!({"additionalProperties": false, "properties": {"a": true}}), json!({"a": 1}), json!({"b": 1})),
        (json!({"patternProperties": {"^x": {"type": "null"}}}), json!({"x1": null}), json!({"x1": 1})),
        (json!({"propertyNames": {"maxLength": 2}}), json!({"ab": 1}), json!({"abc": 1})),
        (json!({"items": {"minimum": 3}, "minItems": 1}), json!([3, 4]), json!([2])),
        (json!({"prefixItems": [{"const": "a"}]}), json!(["a"]), json!(["b"])),
        (json!({"contains": {"const": 7}}), json!([1, 7]), json!([1, 2])),
        (json!({"uniqueItems": true}), json!([1, "1", [1], {"a": 1}]), json!([{"a": 1}, {"a": 1}])),
        (json!({"enum": [{"a": [1]}, "x"]}), json!({"a": [1.0]}), json!({"a": [2]})),
        (json!({"pattern": "^[a-z]+$", "minLength": 2}), json!("ab"), json!("a1")),
        (json!({"multipleOf": 0.1}), json!(0.3), json!(0.35)),
        (json!({"not": {"type": "string"}}), json!(1), json!("a")),
        (json!({"if": {"type": "string"}, "then": {"const": "a"}, "else": false}), json!("a"), json!(1)),
        (json!({"oneOf": [{"type": "string"}, {"type": "number"}]}), json!("a"), json!(null)),
        (json!({"dependentSchemas": {"a": {"required": ["b"]}}}), json!({"a": 1, "b": 1}), json!({"a": 1})),
        (
            json!({"allOf": [{"properties": {"a": true}}], "unevaluatedProperties": false}),
            json!({"a": 1}),
            json!({"b": 1}),
        ),
        (
            json!({"$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}}, "$ref": "#/$defs/n"}),
            json!([[[]]]),
            json!([[1]]),
        ),
    ] {
        let schema = schema(keywords.clone());
        assert_eq!(schema.check(&good).await, Ok(()), "{keywords} {good}");
        assert!(matches!(schema.check(&bad).await, Err(SchemaError::Invalid(_))), "{keywords} {bad}");
    }
}

/// Reasons are few and short for every value, and each has a path.
#[tokio::test]
async fn reasons_are_short() {
    let schema = schema(json!({"items": {"type": "integer"}}));
    let reason_of = |error| match error {
        Err(SchemaError::Invalid(reason)) => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(reason_of(schema.check(&json!([1, "a"])).await), "/1: \"a\" is not of type \"integer\"");
    let long = "x".repeat(100_000);
    let reason = reason_of(schema.check(&json!([long, long, long, long, long, long, long])).await);
    assert!(reason.chars().count() < 5 * 250 && reason.contains('…'), "{reason}");
    let many = reason_of(schema.check(&json!(vec!["a"; 100_000])).await);
    assert!(many.len() < 1_000, "{many}");
}

/// Schemas and values that together need hours, gigabytes or the whole stack are rejected within their budget.
/// One case for each known attack; the test only checks that there is an answer.
#[tokio::test]
async fn expensive_validations_are_rejected() {
    let cases = [
        (json!({"items": {"enum": (0..20_000).collect::<Vec<_>>()}}), json!(vec![-1.5; 100_000])),
        (json!({"pattern": "(a?){60}b"}), json!("a".repeat(2_000_000))),
        (json!({"additionalProperties": false, "patternProperties": patterns(100)}), long_names(1_000)),
        (json!({"items": {"allOf": vec![true; 40_000]}}), json!(vec![0; 100_000])),
        (json!({"uniqueItems": true}), Value::Array((0..700_000).map(Value::from).collect())),
    ];
    for (number, (keywords, value)) in cases.into_iter().enumerate() {
        let began = Instant::now();
        let answer = schema(keywords).check(&value).await;
        assert!(
            matches!(answer, Err(SchemaError::Invalid(_))),
            "case {number}: {answer:?} after {:?}",
            began.elapsed()
        );
    }
}

fn patterns(many: usize) -> Value {
    Value::Object((0..many).map(|number| (format!("^(a?){{30}}b{number}$"), json!(true))).collect())
}

fn long_names(many: usize) -> Value {
    Value::Object((0..many).map(|number| (format!("{}{number}", "a".repeat(1_000)), json!(1))).collect::<Map<_, _>>())
}

/// A schema whose two branches both descend into the value would be followed twice as often per level without
/// memoization. A value as deep as a body may be is validated within the budget.
#[tokio::test]
async fn recursion_through_the_value_is_memoized() {
    let twice = json!({"properties": {"a": {"$ref": "#/$defs/t"}}});
    let schema = schema(json!({
        "$defs": {"t": {"anyOf": [twice, twice, {"type": "string"}], "unevaluatedProperties": false}}, "$ref": "#/$defs/t"
    }));
    let deep = (0..100).fold(json!(0), |inner, _| json!({"a": inner}));
    assert_eq!(schema.check(&deep).await, Ok(()));
}

/// A value nested as deep as a body may be is validated without exhausting the stack, or rejected.
#[tokio::test]
async fn the_stack_is_bounded() {
    let mut definitions = Map::new();
    for level in 0..40 {
        definitions.insert(format!("d{level}"), json!({"allOf": [{"$ref": format!("#/$defs/d{}", level + 1)}]}));
    }
    definitions.insert("d40".to_owned(), json!({"properties": {"a": {"$ref": "#/$defs/d0"}}}));
    let schema = schema(json!({"$defs": definitions, "$ref": "#/$defs/d0"}));
    let deep = (0..128).fold(json!(0), |inner, _| json!({"a": inner}));
    // How much stack this takes depends on the build; the test only checks that there is an answer.
    assert_ne!(schema.check(&deep).await, Err(SchemaError::Busy));
}

/// Patterns that need backtracking or compile to something too large are rejected at registration; usual ones are not.
#[test]
fn patterns_are_linear_and_small() {
    for good in ["^[A-Z]{2}[0-9]{2,30}$", r"^\d{4}-\d{2}-\d{2}$", r"^\p{L}{1,20}$", "^(a+)+$"] {
        assert!(Schema::new(&json!({"pattern": good})).is_ok(), "{good}");
    }
    for bad in ["(?=a)b", r"(a)\1", r"((\w{100}){100}){100}", "("] {
        assert!(Schema::new(&json!({"pattern": bad})).is_err(), "{bad}");
    }
}

/// References to other documents are rejected: nothing is fetched.
#[test]
fn external_references_are_rejected() {
    for reference in ["http://127.0.0.1:9/x", "https://example.org/x", "file:///etc/passwd", "other.json"] {
        let error = Schema::new(&json!({"$ref": reference})).expect_err(reference);
        assert!(error.contains(reference), "{error}");
    }
}
