//! What makes two submissions the same task.

use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::json::{Exact, Json};
use crate::template::{IdentityStrategy, Template};

/// The template requires an `idempotency_key`, and the submission has none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoKey;

/// The identity of a task: another task with the same identity is a duplicate. `None`: every submission is a new task.
pub(crate) fn identity(template: &Template, context: &Json, key: Option<&str>) -> Result<Option<Uuid>, NoKey> {
    let mut hash = Sha256::new();
    match (key, template.identity_strategy) {
        (Some(key), _) => text(&mut hash, &["key", &template.namespace, &template.name, key]),
        (None, IdentityStrategy::CallerProvided) => return Err(NoKey),
        (None, IdentityStrategy::AlwaysUnique) => return Ok(None),
        (None, IdentityStrategy::Strict) => {
            text(&mut hash, &["context", &template.namespace, &template.name, &template.version]);
            value(&mut hash, &context.json());
        }
    }
    Ok(Some(shortened(hash)))
}

/// The identity of the task for a tick of a schedule. It does not depend on what the schedule submits.
pub(crate) fn identity_of_tick(schedule: Uuid, tick: OffsetDateTime) -> Uuid {
    let mut hash = Sha256::new();
    text(&mut hash, &["tick"]);
    hash.update(schedule.as_bytes());
    hash.update(tick.unix_timestamp_nanos().to_be_bytes());
    shortened(hash)
}

fn shortened(hash: Sha256) -> Uuid {
    let mut first = [0; 16];
    first.copy_from_slice(&hash.finalize()[..16]);
    uuid::Builder::from_custom_bytes(first).into_uuid()
}

/// Hashes texts with their lengths, so that `["ab", "c"]` differs from `["a", "bc"]`.
fn text(hash: &mut Sha256, texts: &[&str]) {
    for text in texts {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    }
}

/// Hashes a value. The order of keys and the notation of numbers do not matter; every digit does.
fn value(hash: &mut Sha256, json: &Exact) {
    match json {
        Exact::Object(map) => {
            hash.update(b"{");
            hash.update((map.len() as u64).to_be_bytes());
            for (key, member) in map {
                text(hash, &[key]);
                value(hash, member);
            }
        }
        Exact::Array(values) => {
            hash.update(b"[");
            hash.update((values.len() as u64).to_be_bytes());
            values.iter().for_each(|each| value(hash, each));
        }
        Exact::String(string) => {
            hash.update(b"s");
            text(hash, &[string]);
        }
        Exact::Number(number) => {
            hash.update(b"n");
            text(hash, &[number]);
        }
        Exact::Bool(true) => hash.update(b"t"),
        Exact::Bool(false) => hash.update(b"f"),
        Exact::Null => hash.update(b"0"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn template(strategy: &str, version: &str) -> Template {
        let text = format!("name: t\nnamespace_name: n\nversion: {version:?}\nidentity_strategy: {strategy}\n");
        Template::parse(&text, None).expect("a template")
    }

    /// Each strategy, with and without an idempotency key: a key takes precedence over every strategy.
    #[test]
    fn an_idempotency_key_overrides_every_strategy() {
        let (strict, unique) = (template("strict", "1"), template("always_unique", "1"));
        let caller = template("caller_provided", "1");
        let of = |template: &Template, context: &Json, key| identity(template, context, key).expect("an identity");
        let (one, other) = (Json::from(json!({"a": 1})), Json::from(json!({"a": 2})));
        assert_eq!(of(&strict, &one, None), of(&strict, &one, None));
        assert_ne!(of(&strict, &one, None), of(&strict, &other, None));
        assert_ne!(of(&strict, &one, None), of(&template("strict", "2"), &one, None), "another version");
        assert_eq!(of(&unique, &one, None), None);
        assert_eq!(identity(&caller, &one, None), Err(NoKey));
        for template in [&strict, &unique, &caller] {
            assert_eq!(of(template, &one, Some("k")), of(&strict, &other, Some("k")), "the context does not matter");
            assert_ne!(of(template, &one, Some("k")), of(template, &one, Some("l")));
        }
    }

    /// Numbers beyond 64 bits are distinguished, and two notations of one number are equal.
    #[test]
    fn every_digit_of_a_number_matters() {
        let strict = template("strict", "1");
        let of = |text: &str| identity(&strict, &Json::parse(text.to_owned()).expect("JSON"), None);
        assert_ne!(of(r#"{"id":100000000000000000000}"#), of(r#"{"id":100000000000000000001}"#));
        assert_eq!(of(r#"{"id":100000000000000000001}"#), of(r#"{ "id": 100000000000000000001.0 }"#));
        assert_eq!(of("[1]"), of("[1.0]"));
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[ab]{0,2}".prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 16, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::vec(("[ab]{1,2}", inner), 0..3)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    /// The same value with the keys of every object inserted in reverse.
    fn reversed(json: &Value) -> Value {
        match json {
            Value::Object(map) => {
                Value::Object(map.iter().rev().map(|(key, json)| (key.clone(), reversed(json))).collect())
            }
            Value::Array(values) => values.iter().map(reversed).collect(),
            other => other.clone(),
        }
    }

    proptest! {
        /// Two contexts have the same identity exactly if they are equal; the order of keys does not matter.
        #[test]
        fn equal_contexts_have_equal_identities(one in json(), other in json()) {
            let strict = template("strict", "1");
            let of = |context: &Value| identity(&strict, &Json::from(context.clone()), None);
            prop_assert_eq!(of(&one), of(&reversed(&one)));
            prop_assert_eq!(of(&one) == of(&other), one == other);
        }
    }
}
