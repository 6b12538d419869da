//! What a result says of how its task goes on: which steps a decision chooses, into which parts a step is divided.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::template::{StepDefinition, StepKind, Template};

/// The parts of a batch at most.
const PARTS_MAX: usize = 10_000;

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

/// What a result says of how its task goes on, checked against the template; if it is not what that allows, why.
pub(crate) fn decided(
    template: &Template,
    step: &StepDefinition,
    result: &Value,
) -> std::result::Result<(Chosen, Inputs), String> {
    let read = || Decision::deserialize(result).map_err(|error| error.to_string());
    match step.kind {
        StepKind::Decision => {
            let names = match read()?.decision_point_outcome {
                Some(Branches::CreateSteps { step_names }) => step_names,
                Some(Branches::NoBranches) | None => Vec::new(),
            };
            let place = |name: &String| {
                let place = template.place(name).filter(|place| step.children.contains(place));
                let place = place.map(|place| place as i32);
                place.ok_or_else(|| format!("it names {name:?}, which is no step that depends on {:?}", step.name))
            };
            Ok((Some(names.iter().map(place).collect::<std::result::Result<_, _>>()?), None))
        }
        StepKind::Batchable => {
            let cursors = match read()?.batch_processing_outcome {
                Some(Parts::CreateBatches { cursor_configs }) => cursor_configs,
                Some(Parts::NoBatches) | None => Vec::new(),
            };
            if cursors.len() > PARTS_MAX {
                return Err(format!("it asks for {} parts; the limit is {PARTS_MAX}", cursors.len()));
            }
            Ok((None, Some(cursors.iter().map(Value::to_string).collect())))
        }
        _ => Ok((None, None)),
    }
}
