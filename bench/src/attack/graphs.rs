//! Templates, schedules and tasks that are short and expensive to process.

use serde_json::{Value, json};

use super::victim::Victim;
use crate::Result;

/// A template of one step, with a schema for the context of its tasks.
fn template(name: &str, input_schema: &Value) -> Vec<u8> {
    let steps = [json!({"name": "only", "handler": {"callable": "only"}})];
    let template = json!({
        "name": name, "namespace_name": "attack", "version": "1.0.0", "identity_strategy": "always_unique",
        "input_schema": input_schema, "steps": steps,
    });
    template.to_string().into_bytes()
}

async fn register_and_submit(victim: &Victim, name: &str, schema: &Value, context: Value) -> Result<String> {
    let registered = victim.ask("POST", "/v1/templates", &template(name, schema)).await?;
    let task = json!({"namespace": "attack", "name": name, "version": "1.0.0", "context": context}).to_string();
    let submitted = victim.ask("POST", "/v1/tasks", task.as_bytes()).await?;
    Ok(format!("template {}; task {}", registered.brief(), submitted.status))
}

/// A schema of 25 definitions, each of which refers twice to the next.
pub(super) async fn doubling_schema(victim: &Victim) -> Result<String> {
    const LEVELS: usize = 24;
    let mut definitions = serde_json::Map::new();
    for level in 0..LEVELS {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        definitions.insert(format!("d{level}"), json!({"anyOf": [next, next]}));
    }
    definitions.insert(format!("d{LEVELS}"), json!({"type": "string", "minLength": 5}));
    let schema = json!({"$defs": definitions, "type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}});
    register_and_submit(victim, "doubling", &schema, json!({"a": 1})).await
}

/// A pattern for which a backtracking engine needs exponential time.
pub(super) async fn slow_pattern(victim: &Victim) -> Result<String> {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "^((a+)+)+(?!b)$"}}});
    register_and_submit(victim, "pattern", &schema, json!({"a": format!("{}!", "a".repeat(5_000))})).await
}

/// A template whose 5 000 steps form a cycle.
pub(super) async fn long_cycle(victim: &Victim) -> Result<String> {
    const STEPS: usize = 5_000;
    let name = |step: usize| format!("step-{step:05}");
    let step = |step: usize| {
        let before = name((step + STEPS - 1) % STEPS);
        json!({"name": name(step), "dependencies": [before], "handler": {"callable": "any"}})
    };
    let steps: Vec<Value> = (0..STEPS).map(step).collect();
    let template = json!({"name": "cycle", "namespace_name": "attack", "version": "1.0.0", "steps": steps});
    let registered = victim.ask("POST", "/v1/templates", template.to_string().as_bytes()).await?;
    Ok(format!("{} with {} bytes", registered.status, registered.bytes))
}

/// A schedule for the 30th of February.
pub(super) async fn impossible_schedule(victim: &Victim) -> Result<String> {
    victim.ask("POST", "/v1/templates", &template("scheduled", &json!({"type": "object"}))).await?;
    let schedule = json!({
        "namespace": "attack", "name": "never", "template": "scheduled", "version": "1.0.0", "cron": "0 0 30 2 *",
        "context": {},
    });
    let made = victim.ask("PUT", "/v1/schedules", schedule.to_string().as_bytes()).await?;
    Ok(made.brief())
}

/// A hundred tasks with large contexts, claimed by one request.
pub(super) async fn large_claim(victim: &Victim) -> Result<String> {
    victim.ask("POST", "/v1/templates", &template("large", &json!({"type": "object"}))).await?;
    let context = json!({"text": "x".repeat(1_000_000)});
    let task = json!({"namespace": "attack", "name": "large", "version": "1.0.0", "context": context}).to_string();
    let mut last = 0;
    for _ in 0..100 {
        last = victim.ask("POST", "/v1/tasks", task.as_bytes()).await?.status;
    }
    let claim = json!({"worker": "w", "namespaces": ["attack"], "max_steps": 100, "wait_ms": 0}).to_string();
    let claimed = victim.ask("POST", "/v1/workers/claim", claim.as_bytes()).await?;
    Ok(format!("tasks {last}; claim {}: {} MB", claimed.status, claimed.bytes >> 20))
}
