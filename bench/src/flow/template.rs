//! Makes a template of a shape.

use serde_json::{Value, json};
use tasks::Shape;

pub(super) const NAME: &str = "shape";
pub(super) const VERSION: &str = "1.0.0";
/// The namespace of workloads that need only one.
pub(super) const NAMESPACE: &str = "bench";
/// The callables: of the last step of a task, and of the others.
pub(super) const LAST: &str = "last";
pub(super) const STEP: &str = "step";

/// The text of the template. It is JSON, which is YAML, too.
pub(super) fn text(shape: Shape, namespace: &str) -> String {
    let steps = shape.steps();
    let count = steps.len();
    let step = |(index, (name, waits_for)): (usize, (String, Vec<String>))| {
        let callable = if index + 1 == count { LAST } else { STEP };
        json!({"name": name, "dependencies": waits_for, "handler": {"callable": callable}})
    };
    let steps: Vec<Value> = steps.into_iter().enumerate().map(step).collect();
    json!({
        "name": NAME,
        "namespace_name": namespace,
        "version": VERSION,
        "identity_strategy": "always_unique",
        "steps": steps,
    })
    .to_string()
}

/// The context of every task.
pub(super) fn context() -> Value {
    json!({"order": 4711, "customer": "ada-1815"})
}
