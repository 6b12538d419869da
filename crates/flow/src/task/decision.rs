//! Results that control how a task continues: the steps that a decision creates, the parts of a batch.
//!
//! A result without its outcome is rejected, and the worker keeps the step. If a missing outcome meant "none", a typing
//! error would end the task as if there was nothing to do.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::json::Json;
use crate::template::{StepDefinition, StepKind, Template};

/// The most parts of a batch.
const PARTS_MAX: usize = 10_000;
/// Characters of a name that are quoted.
const NAME_SHOWN: usize = 100;

/// The outcome in the result of a decision or a batchable step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Decision {
    /// Of a decision: the steps to create.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision_point_outcome: Option<Branches>,
    /// Of a batchable step: the parts to create.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_processing_outcome: Option<Parts>,
}

/// The steps that a decision creates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Branches {
    /// None.
    NoBranches,
    /// These steps.
    CreateSteps {
        /// Their names. Each must depend on the decision.
        step_names: Vec<String>,
    },
}

/// The parts of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Parts {
    /// There is nothing to do.
    NoBatches,
    /// One part for each cursor.
    CreateBatches {
        /// The input of each part.
        cursor_configs: Vec<Value>,
    },
}

/// The indexes of the steps that a decision creates.
pub(crate) type Chosen = Option<Vec<i32>>;
/// The inputs of the parts of a batch, as JSON.
pub(crate) type Inputs = Option<Vec<String>>;

/// The JSON format of an outcome.
struct OutcomeFormat {
    key: &'static str,
    none: &'static str,
    some: &'static str,
    list: &'static str,
}

const BRANCHES: OutcomeFormat =
    OutcomeFormat { key: "decision_point_outcome", none: "no_branches", some: "create_steps", list: "step_names" };
const PARTS: OutcomeFormat = OutcomeFormat {
    key: "batch_processing_outcome",
    none: "no_batches",
    some: "create_batches",
    list: "cursor_configs",
};

impl OutcomeFormat {
    /// The list in an outcome; empty for the "none" type. `Err` if the result does not have this format.
    fn list<'a, T: Deserialize<'a>>(&self, result: &'a Json) -> Result<Vec<T>, String> {
        let OutcomeFormat { key, none, some, list } = self;
        let members = |text: &'a str| serde_json::from_str::<HashMap<String, &'a RawValue>>(text).ok();
        let text = |raw: &RawValue| serde_json::from_str::<String>(raw.get()).ok();
        let all = members(result.get()).ok_or_else(|| format!("must be an object with `{key}`"))?;
        let outcome = all.get(*key).copied().ok_or_else(|| format!("missing `{key}`"))?;
        let expected =
            || format!("`{key}` must be {{\"type\": \"{none}\"}} or {{\"type\": \"{some}\", \"{list}\": [...]}}");
        let outcome = members(outcome.get()).ok_or_else(expected)?;
        let kind = outcome.get("type").and_then(|kind| text(kind));
        let given = outcome.get(*list);
        if let Some(other) = outcome.keys().find(|name| name.as_str() != "type" && name.as_str() != *list) {
            return Err(format!("{}, got unknown field {:?}", expected(), shown(other)));
        }
        match (kind.as_deref(), given) {
            (Some(kind), None) if kind == *none => Ok(Vec::new()),
            (Some(kind), Some(given)) if kind == *some => serde_json::from_str(given.get()).map_err(|_| expected()),
            _ => Err(expected()),
        }
    }
}

/// Parses the outcome in a result and checks it against the template. `Err` says why it is not accepted.
pub(crate) fn decided(
    template: &Template,
    step: &StepDefinition,
    result: &Json,
) -> std::result::Result<(Chosen, Inputs), String> {
    match step.kind {
        StepKind::Decision => {
            let names: Vec<String> = BRANCHES.list(result)?;
            let indexes: HashMap<&str, usize> =
                step.children.iter().map(|child| (template.steps[*child].name.as_str(), *child)).collect();
            let mut chosen = Vec::with_capacity(names.len().min(indexes.len()));
            for name in &names {
                let unknown = || format!("{:?} is not a step that depends on {:?}", shown(name), step.name);
                chosen.push(*indexes.get(name.as_str()).ok_or_else(unknown)? as i32);
            }
            // A step that is named twice is created once.
            chosen.sort_unstable();
            chosen.dedup();
            Ok((Some(chosen), None))
        }
        StepKind::Batchable => {
            let cursors: Vec<&RawValue> = PARTS.list(result)?;
            if cursors.len() > PARTS_MAX {
                return Err(format!("too many parts: at most {PARTS_MAX} are allowed, got {}", cursors.len()));
            }
            Ok((None, Some(cursors.iter().map(|cursor| cursor.get().to_owned()).collect())))
        }
        _ => Ok((None, None)),
    }
}

fn shown(name: &str) -> String {
    name.chars().take(NAME_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEMPLATE: &str = "name: t
steps:
  - {name: route, type: decision}
  - {name: left, dependencies: [route]}
  - {name: right, dependencies: [route]}
  - {name: split, type: batchable, batch_config: {worker_template: part}}
  - {name: part, type: batch_worker, dependencies: [split]}
";

    fn of(step: usize, text: &str) -> Result<(Chosen, Inputs), String> {
        let template = Template::parse(TEMPLATE, None).expect("a template");
        decided(&template, &template.steps[step], &Json::parse(text.to_owned()).expect("JSON"))
    }

    /// Every type of outcome is accepted, beside any other fields of the result.
    #[test]
    fn outcomes_are_read_from_results() {
        for (result, chosen) in [
            (json!({"decision_point_outcome": {"type": "no_branches"}}), vec![]),
            (json!({"decision_point_outcome": {"type": "create_steps", "step_names": ["right"]}, "more": 1}), vec![2]),
            (
                json!({"decision_point_outcome": {"type": "create_steps", "step_names": ["right", "left", "right"]}}),
                vec![1, 2],
            ),
        ] {
            assert_eq!(of(0, &result.to_string()), Ok((Some(chosen), None)), "{result}");
        }
        let json = r#"{"batch_processing_outcome": {"type": "create_batches", "cursor_configs": [100000000000000000001, {"a": 1.0}]}}"#;
        let inputs = vec!["100000000000000000001".to_owned(), r#"{"a": 1.0}"#.to_owned()];
        assert_eq!(of(3, json), Ok((None, Some(inputs))), "inputs are kept as written");
        assert_eq!(of(3, r#"{"batch_processing_outcome": {"type": "no_batches"}}"#), Ok((None, Some(vec![]))));
        assert_eq!(of(1, "null"), Ok((None, None)), "other kinds of steps have no outcome");
    }

    /// A result without its outcome, or with another format, is rejected with the expected format.
    #[test]
    fn results_without_their_outcome_are_rejected() {
        for (step, key, result) in [
            (0, "decision_point_outcome", json!(null)),
            (0, "decision_point_outcome", json!([1])),
            (0, "decision_point_outcome", json!({})),
            (0, "decision_point_outcome", json!({"decision_point_outcom": {"type": "no_branches"}})),
            (0, "decision_point_outcome", json!({"decision_point_outcome": null})),
            (0, "decision_point_outcome", json!({"decision_point_outcome": "left"})),
            (0, "decision_point_outcome", json!({"decision_point_outcome": {}})),
            (0, "decision_point_outcome", json!({"decision_point_outcome": {"type": "create_branches"}})),
            (0, "decision_point_outcome", json!({"decision_point_outcome": {"type": "create_steps"}})),
            (
                0,
                "decision_point_outcome",
                json!({"decision_point_outcome": {"type": "create_steps", "step_names": "left"}}),
            ),
            (
                0,
                "decision_point_outcome",
                json!({"decision_point_outcome": {"type": "create_steps", "step_names": [1]}}),
            ),
            (
                0,
                "decision_point_outcome",
                json!({"decision_point_outcome": {"type": "create_steps", "steps": ["left"]}}),
            ),
            (
                0,
                "decision_point_outcome",
                json!({"decision_point_outcome": {"type": "no_branches", "step_names": ["left"]}}),
            ),
            (0, "decision_point_outcome", json!({"batch_processing_outcome": {"type": "no_batches"}})),
            (0, "\"none\"", json!({"decision_point_outcome": {"type": "create_steps", "step_names": ["none"]}})),
            (
                0,
                "\"part\"",
                json!({"decision_point_outcome": {"type": "create_steps", "step_names": ["left", "part"]}}),
            ),
            (3, "batch_processing_outcome", json!({"batch_processing_outcom": {"type": "no_batches"}})),
            (
                3,
                "batch_processing_outcome",
                json!({"batch_processing_outcome": {"type": "create_batches", "cursors": [1]}}),
            ),
            (
                3,
                "batch_processing_outcome",
                json!({"batch_processing_outcome": {"type": "create_batches", "cursor_configs": 3}}),
            ),
            (
                3,
                "at most 10000 are allowed",
                json!({"batch_processing_outcome": {"type": "create_batches", "cursor_configs": vec![0; 10_001]}}),
            ),
        ] {
            let reason = of(step, &result.to_string()).expect_err(&result.to_string());
            assert!(reason.contains(key) && reason.len() < 400, "{result}: {reason}");
        }
    }
}
