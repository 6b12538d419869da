//! Building the results of decisions and batchable steps in handlers.

use serde::Serialize;
use serde_json::Value;

use crate::complete::Failure;
use crate::task::decision::{Branches, Decision, Parts};

impl Decision {
    /// The result of a decision: creates these of the steps that depend on it. The list may be empty.
    pub fn choose<S: Into<String>>(steps: impl IntoIterator<Item = S>) -> Decision {
        let step_names: Vec<String> = steps.into_iter().map(Into::into).collect();
        let chosen = if step_names.is_empty() { Branches::NoBranches } else { Branches::CreateSteps { step_names } };
        Decision { decision_point_outcome: Some(chosen), ..Decision::default() }
    }

    /// The result of a batchable step: creates one part per [`input`](crate::Step::input). The list may be empty.
    ///
    /// # Errors
    /// If an input cannot be serialized.
    pub fn divide<T: Serialize>(inputs: impl IntoIterator<Item = T>) -> Result<Decision, Failure> {
        let inputs = inputs.into_iter().map(serde_json::to_value).collect::<Result<Vec<Value>, _>>();
        let cursor_configs =
            inputs.map_err(|error| Failure::shape(format!("cannot serialize the input of a part: {error}")))?;
        let parts = if cursor_configs.is_empty() { Parts::NoBatches } else { Parts::CreateBatches { cursor_configs } };
        Ok(Decision { batch_processing_outcome: Some(parts), ..Decision::default() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The results have the format of the API.
    #[test]
    fn decisions_have_the_format_of_the_api() {
        let written = |decision: Decision| serde_json::to_value(decision).expect("JSON");
        let chosen = json!({"decision_point_outcome": {"type": "create_steps", "step_names": ["a", "b"]}});
        assert_eq!(written(Decision::choose(["a", "b"])), chosen);
        assert_eq!(written(Decision::choose([""; 0])), json!({"decision_point_outcome": {"type": "no_branches"}}));
        let divided = json!({"batch_processing_outcome": {"type": "create_batches", "cursor_configs": [1, 2]}});
        assert_eq!(written(Decision::divide([1, 2]).expect("JSON")), divided);
        let none = json!({"batch_processing_outcome": {"type": "no_batches"}});
        assert_eq!(written(Decision::divide([0; 0]).expect("JSON")), none);
    }
}
