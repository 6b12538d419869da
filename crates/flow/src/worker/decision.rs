//! Results that say how a task goes on, as handlers make them.

use serde::Serialize;
use serde_json::Value;

use crate::complete::Failure;
use crate::decision::{Branches, Decision, Parts};

impl Decision {
    /// Of a decision: these steps come to be, and no others of those that depend on it. None is a choice, too.
    pub fn choose<S: Into<String>>(steps: impl IntoIterator<Item = S>) -> Decision {
        let step_names: Vec<String> = steps.into_iter().map(Into::into).collect();
        let chosen = if step_names.is_empty() { Branches::NoBranches } else { Branches::CreateSteps { step_names } };
        Decision { decision_point_outcome: Some(chosen), ..Decision::default() }
    }

    /// Of a step that is divided: one part for each of these, which is what it finds as its [`input`](crate::Step::input). None is an answer, too.
    ///
    /// # Errors
    /// If one of them is not JSON.
    pub fn divide<T: Serialize>(inputs: impl IntoIterator<Item = T>) -> Result<Decision, Failure> {
        let inputs = inputs.into_iter().map(serde_json::to_value).collect::<Result<Vec<Value>, _>>();
        let cursor_configs = inputs.map_err(|error| Failure::shape(format!("a part's input is not JSON: {error}")))?;
        let parts = if cursor_configs.is_empty() { Parts::NoBatches } else { Parts::CreateBatches { cursor_configs } };
        Ok(Decision { batch_processing_outcome: Some(parts), ..Decision::default() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What is made here is what the API describes.
    #[test]
    fn decisions_are_written_as_the_api_has_them() {
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
