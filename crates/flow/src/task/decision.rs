//! What a result says of how its task goes on: which steps a decision chooses, into which parts a step is divided.
//!
//! A result that does not say it is refused, and the step stays its worker's: taken for "none", a slip of the pen would end the task as if nothing had been to do.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::json::Json;
use crate::template::{StepDefinition, StepKind, Template};

/// The parts of a batch at most.
const PARTS_MAX: usize = 10_000;
/// Characters of a name that are told.
const NAME_SHOWN: usize = 100;

/// How a task goes on, as a result says it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Decision {
    /// Of a decision: which steps come to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision_point_outcome: Option<Branches>,
    /// Of a step that is divided: into which parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_processing_outcome: Option<Parts>,
}

/// Which steps come to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Branches {
    /// None.
    NoBranches,
    /// These, by name.
    CreateSteps {
        /// They depend on the decision.
        step_names: Vec<String>,
    },
}

/// Into which parts a step is divided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Parts {
    /// There is nothing to be done.
    NoBatches,
    /// One for each cursor.
    CreateBatches {
        /// What each part is to work on: it finds it as its input.
        cursor_configs: Vec<Value>,
    },
}

/// The places of the steps that a decision chose.
pub(crate) type Chosen = Option<Vec<i32>>;
/// What the parts of a batch are to work on, each as JSON.
pub(crate) type Inputs = Option<Vec<String>>;

/// Where a result says how its task goes on, and in which words.
struct Form {
    key: &'static str,
    none: &'static str,
    some: &'static str,
    list: &'static str,
}

const BRANCHES: Form =
    Form { key: "decision_point_outcome", none: "no_branches", some: "create_steps", list: "step_names" };
const PARTS: Form =
    Form { key: "batch_processing_outcome", none: "no_batches", some: "create_batches", list: "cursor_configs" };

impl Form {
    /// The list of an outcome; empty if there is none. `Err` if the result does not say it in this form.
    fn list<'a, T: Deserialize<'a>>(&self, result: &'a Json) -> Result<Vec<T>, String> {
        let Form { key, none, some, list } = self;
        let members = |text: &'a str| serde_json::from_str::<HashMap<String, &'a RawValue>>(text).ok();
        let text = |raw: &RawValue| serde_json::from_str::<String>(raw.get()).ok();
        let all = members(result.get()).ok_or_else(|| format!("it must be an object with `{key}`"))?;
        let outcome =
            all.get(*key).copied().ok_or_else(|| format!("`{key}` is missing: it says how the task goes on"))?;
        let form =
            || format!("`{key}` must be {{\"type\": \"{none}\"}} or {{\"type\": \"{some}\", \"{list}\": [...]}}");
        let outcome = members(outcome.get()).ok_or_else(form)?;
        let kind = outcome.get("type").and_then(|kind| text(kind));
        let given = outcome.get(*list);
        if let Some(other) = outcome.keys().find(|name| name.as_str() != "type" && name.as_str() != *list) {
            return Err(format!("{}: it has an unknown field {:?}", form(), shown(other)));
        }
        match (kind.as_deref(), given) {
            (Some(kind), None) if kind == *none => Ok(Vec::new()),
            (Some(kind), Some(given)) if kind == *some => serde_json::from_str(given.get()).map_err(|_| form()),
            _ => Err(form()),
        }
    }
}

/// What a result says of how its task goes on, checked against the template; if it is not what that allows, why.
pub(crate) fn decided(
    template: &Template,
    step: &StepDefinition,
    result: &Json,
) -> std::result::Result<(Chosen, Inputs), String> {
    match step.kind {
        StepKind::Decision => {
            let names: Vec<String> = BRANCHES.list(result)?;
            let places: HashMap<&str, usize> =
                step.children.iter().map(|child| (template.steps[*child].name.as_str(), *child)).collect();
            let mut chosen = Vec::with_capacity(names.len().min(places.len()));
            for name in &names {
                let unknown =
                    || format!("it names {:?}, which is no step that depends on {:?}", shown(name), step.name);
                chosen.push(*places.get(name.as_str()).ok_or_else(unknown)? as i32);
            }
            // Named twice is named.
            chosen.sort_unstable();
            chosen.dedup();
            Ok((Some(chosen), None))
        }
        StepKind::Batchable => {
            let cursors: Vec<&RawValue> = PARTS.list(result)?;
            if cursors.len() > PARTS_MAX {
                return Err(format!("it asks for {} parts; the limit is {PARTS_MAX}", cursors.len()));
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

    /// Each way of saying it counts, with whatever else the result holds.
    #[test]
    fn an_outcome_says_how_the_task_goes_on() {
        for (said, chosen) in [
            (json!({"decision_point_outcome": {"type": "no_branches"}}), vec![]),
            (json!({"decision_point_outcome": {"type": "create_steps", "step_names": ["right"]}, "more": 1}), vec![2]),
            (
                json!({"decision_point_outcome": {"type": "create_steps", "step_names": ["right", "left", "right"]}}),
                vec![1, 2],
            ),
        ] {
            assert_eq!(of(0, &said.to_string()), Ok((Some(chosen), None)), "{said}");
        }
        let exact = r#"{"batch_processing_outcome": {"type": "create_batches", "cursor_configs": [100000000000000000001, {"a": 1.0}]}}"#;
        let inputs = vec!["100000000000000000001".to_owned(), r#"{"a": 1.0}"#.to_owned()];
        assert_eq!(of(3, exact), Ok((None, Some(inputs))), "as they were written");
        assert_eq!(of(3, r#"{"batch_processing_outcome": {"type": "no_batches"}}"#), Ok((None, Some(vec![]))));
        assert_eq!(of(1, "null"), Ok((None, None)), "another kind of step says nothing of it");
    }

    /// A result that does not say it, or says it in another form, is refused with the form that counts.
    #[test]
    fn results_without_their_outcome_are_rejected() {
        for (step, key, said) in [
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
                "the limit is 10000",
                json!({"batch_processing_outcome": {"type": "create_batches", "cursor_configs": vec![0; 10_001]}}),
            ),
        ] {
            let reason = of(step, &said.to_string()).expect_err(&said.to_string());
            assert!(reason.contains(key) && reason.len() < 400, "{said}: {reason}");
        }
    }
}
