use std::time::Instant;

use serde_json::{Map, json};

use super::*;

fn schema(schema: Value) -> Arc<Schema> {
    Arc::new(Schema::new(&schema).unwrap_or_else(|error| panic!("{error}")))
}

/// Values go through the counting representation as through the validator's own, in every kind of keyword.
/// Each schema is asked about values that it allows and values that it does not.
#[tokio::test]
async fn every_kind_of_keyword_means_what_it_says() {
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
        assert!(matches!(schema.check(&bad).await, Err(Unfit::Invalid(_))), "{keywords} {bad}");
    }
}

/// Reasons are few and short, whatever the value, and each says where.
#[tokio::test]
async fn reasons_are_told_in_short() {
    let schema = schema(json!({"items": {"type": "integer"}}));
    let told = |unfit| match unfit {
        Err(Unfit::Invalid(reason)) => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(told(schema.check(&json!([1, "a"])).await), "/1: \"a\" is not of type \"integer\"");
    let long = "x".repeat(100_000);
    let reason = told(schema.check(&json!([long, long, long, long, long, long, long])).await);
    assert!(reason.chars().count() < 5 * 250 && reason.contains('…'), "{reason}");
    let many = told(schema.check(&json!(vec!["a"; 100_000])).await);
    assert!(many.len() < 1_000, "{many}");
}

/// Schemas and values that together ask for hours, gigabytes or the whole stack are refused, each within its budget.
/// One for each way that was found: nothing is measured but that there is an answer.
#[tokio::test]
async fn what_costs_too_much_is_refused() {
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
        assert!(matches!(answer, Err(Unfit::Invalid(_))), "case {number}: {answer:?} after {:?}", began.elapsed());
    }
}

fn patterns(many: usize) -> Value {
    Value::Object((0..many).map(|number| (format!("^(a?){{30}}b{number}$"), json!(true))).collect())
}

fn long_names(many: usize) -> Value {
    Value::Object((0..many).map(|number| (format!("{}{number}", "a".repeat(1_000)), json!(1))).collect::<Map<_, _>>())
}

/// A schema of which both branches go into the value is followed twice as often per level, unless what was found out is remembered: a value as deep as a body may be is compared within the budget.
#[tokio::test]
async fn recursion_through_the_value_is_remembered() {
    let twice = json!({"properties": {"a": {"$ref": "#/$defs/t"}}});
    let schema = schema(json!({
        "$defs": {"t": {"anyOf": [twice, twice, {"type": "string"}], "unevaluatedProperties": false}}, "$ref": "#/$defs/t"
    }));
    let deep = (0..100).fold(json!(0), |inner, _| json!({"a": inner}));
    assert_eq!(schema.check(&deep).await, Ok(()));
}

/// A value nested as deep as a body may be is compared without exhausting the stack, or refused.
#[tokio::test]
async fn the_stack_is_bounded() {
    let mut definitions = Map::new();
    for level in 0..40 {
        definitions.insert(format!("d{level}"), json!({"allOf": [{"$ref": format!("#/$defs/d{}", level + 1)}]}));
    }
    definitions.insert("d40".to_owned(), json!({"properties": {"a": {"$ref": "#/$defs/d0"}}}));
    let schema = schema(json!({"$defs": definitions, "$ref": "#/$defs/d0"}));
    let deep = (0..128).fold(json!(0), |inner, _| json!({"a": inner}));
    // How much of the stack that takes depends on how the program was compiled: that there is an answer counts.
    assert_ne!(schema.check(&deep).await, Err(Unfit::Busy));
}

/// Expressions that need backtracking are refused when they are registered, and so are those that become too large; usual ones are not.
#[test]
fn patterns_are_linear_and_small() {
    for good in ["^[A-Z]{2}[0-9]{2,30}$", r"^\d{4}-\d{2}-\d{2}$", r"^\p{L}{1,20}$", "^(a+)+$"] {
        assert!(Schema::new(&json!({"pattern": good})).is_ok(), "{good}");
    }
    for bad in ["(?=a)b", r"(a)\1", r"((\w{100}){100}){100}", "("] {
        assert!(Schema::new(&json!({"pattern": bad})).is_err(), "{bad}");
    }
}

/// Nothing is fetched for a schema, from nowhere.
#[test]
fn references_to_elsewhere_are_refused() {
    for reference in ["http://127.0.0.1:9/x", "https://example.org/x", "file:///etc/passwd", "other.json"] {
        let error = Schema::new(&json!({"$ref": reference})).expect_err(reference);
        assert!(error.contains(reference), "{error}");
    }
}
