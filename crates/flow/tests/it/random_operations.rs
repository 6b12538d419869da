//! Operators and workers at the same task in any order: it stays consistent, and it can be completed.

use std::fmt::Write;

use fastrand::Rng;
use reveille_flow::{AttemptResult, ClaimedStep, Error, Operation, Refused, StepState};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::fixture::{Fixture, failure, submission};
use crate::manual::who;

/// A random graph.
struct Graph {
    yaml: String,
    /// By index: the name of each step, and its children.
    names: Vec<String>,
    children: Vec<Vec<usize>>,
}

/// The first letter of a name is the kind of the step: d decision, b batchable, w part, c convergence, s any other.
fn graph(rng: &mut Rng) -> Graph {
    let (mut names, mut parents): (Vec<String>, Vec<Vec<usize>>) = (Vec::new(), Vec::new());
    for position in 0..3 + rng.usize(..8) {
        let before: Vec<usize> = (0..names.len()).filter(|_| rng.u8(..3) == 0).collect();
        if rng.u8(..5) == 0 {
            names.extend([format!("b{position}"), format!("w{position}")]);
            let split = parents.len();
            parents.extend([before, vec![split]]);
            continue;
        }
        let kind = match rng.u8(..6) {
            0 => 'd',
            1 | 2 if !before.is_empty() => 'c',
            _ => 's',
        };
        names.push(format!("{kind}{position}"));
        parents.push(before);
    }
    let after =
        |position: usize| (0..parents.len()).filter(|child| parents[*child].contains(&position)).collect::<Vec<_>>();
    let children: Vec<Vec<usize>> = (0..names.len()).map(after).collect();
    let mut yaml = String::from("[");
    for (position, before) in parents.iter().enumerate() {
        let name = &names[position];
        let strategy = if rng.bool() { "fail_fast" } else { "continue_on_failure" };
        let kind = match name.as_bytes()[0] {
            // A decision without children is an ordinary step.
            b'd' if !children[position].is_empty() => "type: decision, ".to_owned(),
            b'c' => "type: deferred_convergence, ".to_owned(),
            b'b' => {
                let worker = &names[position + 1];
                format!("type: batchable, batch_config: {{worker_template: {worker}, failure_strategy: {strategy}}}, ")
            }
            b'w' => "type: batch_worker, ".to_owned(),
            _ => String::new(),
        };
        let before: Vec<&str> = before.iter().map(|parent| names[*parent].as_str()).collect();
        let retry = "{max_attempts: 2, backoff: none}";
        write!(yaml, "{{name: {name}, {kind}retry: {retry}, dependencies: [{}]}}, ", before.join(", ")).expect("text");
    }
    yaml.push(']');
    Graph { yaml, names, children }
}

impl Graph {
    /// A valid result of a step with this name.
    fn result(&self, step: &str, rng: &mut Rng) -> Value {
        let position = self.names.iter().position(|name| name == step).unwrap_or_default();
        match step.as_bytes()[0] {
            b'd' => {
                let chosen = self.children[position].iter().filter(|_| rng.bool()).map(|child| &self.names[*child]);
                json!({"decision_point_outcome": {"type": "create_steps", "step_names": chosen.collect::<Vec<_>>()}})
            }
            b'b' => {
                let cursors = vec![1; rng.usize(..4)];
                json!({"batch_processing_outcome": {"type": "create_batches", "cursor_configs": cursors}})
            }
            _ => json!(step),
        }
    }
}

/// A task with workers and operators.
struct Meddled<'a> {
    flow: &'a Fixture,
    graph: Graph,
    task: Uuid,
    rng: Rng,
    /// The claims that workers hold, and those that they have lost.
    held: Vec<ClaimedStep>,
    lost: Vec<ClaimedStep>,
}

impl Meddled<'_> {
    /// One random action; returns its description.
    async fn anything(&mut self) -> String {
        match self.rng.u8(..10) {
            0..3 => {
                let claimed = self.flow.now(1 + self.rng.usize(..2)).await;
                let names: Vec<String> = claimed.iter().map(|step| step.name.clone()).collect();
                self.held.extend(claimed);
                format!("a claim of {names:?}")
            }
            3..6 if !self.held.is_empty() => {
                let step = self.held.swap_remove(self.rng.usize(..self.held.len()));
                let said = match self.rng.u8(..6) {
                    0 | 1 => AttemptResult::Failed(failure(false)),
                    2 => AttemptResult::Failed(failure(true)),
                    3 => AttemptResult::GivenBack,
                    _ => AttemptResult::Complete(self.graph.result(&step.name, &mut self.rng).into()),
                };
                let text = format!("{said:?} of {}", step.name);
                self.flow.say(&step, said).await.unwrap_or_else(|refused| panic!("{text}: {refused}"));
                text
            }
            6 if !self.lost.is_empty() => {
                let step = &self.lost[self.rng.usize(..self.lost.len())];
                let said = AttemptResult::Complete(self.graph.result(&step.name, &mut self.rng).into());
                assert_eq!(self.flow.say(step, said).await, Err(Refused::Lost), "{}", step.name);
                format!("a late word about {}", step.name)
            }
            7 | 8 => {
                let failed = self.failed().await;
                let Some(step) = self.rng.choice(&failed).cloned() else { return "nothing".to_owned() };
                let result = self.graph.result(&step, &mut self.rng);
                let all = [Operation::ResolveManually, Operation::CompleteManually { result: result.into() }];
                let operation = self.rng.choice(all).filter(|_| self.rng.u8(..3) == 0);
                self.operate(&step, operation.unwrap_or(Operation::ResetForRetry)).await
            }
            _ => {
                let mut step = self.rng.choice(&self.graph.names).expect("a step").clone();
                if step.starts_with('w') {
                    write!(step, "_00{}", 1 + self.rng.u8(..3)).expect("text");
                }
                let operation = match self.rng.u8(..3) {
                    0 => Operation::ResolveManually,
                    1 => Operation::CompleteManually { result: self.graph.result(&step, &mut self.rng).into() },
                    _ => Operation::ResetForRetry,
                };
                self.operate(&step, operation).await
            }
        }
    }

    /// The public names of the steps that failed for good.
    async fn failed(&self) -> Vec<String> {
        let failed = self.flow.states(self.task).await.into_iter().filter(|(_, state)| state == "error");
        failed
            .map(|(step, _)| step.split_once('_').map_or(step.clone(), |(name, part)| format!("{name}_00{part}")))
            .collect()
    }

    async fn operate(&mut self, step: &str, operation: Operation) -> String {
        let text = format!("{operation:?} of {step}");
        match self.flow.operate(self.task, step, operation, who()).await {
            Ok(operated) if operated.before == StepState::InProgress => {
                let held = self.held.iter().position(|held| held.name == step).expect("a worker held it");
                self.lost.push(self.held.swap_remove(held));
                text
            }
            Ok(_) => text,
            Err(Error::NotAllowed { .. } | Error::NoStep { .. }) => format!("no {text}"),
            Err(error) => panic!("{text}: {error}"),
        }
    }

    /// Completes all open steps, and resets failed ones.
    async fn finish(&mut self) {
        for _ in 0..200 {
            for step in self.held.drain(..) {
                let result = self.graph.result(&step.name, &mut self.rng);
                self.flow.complete(&step, result).await;
            }
            match self.flow.state_and_open_steps(self.task).await.0.as_str() {
                "complete" => return,
                "error" => {
                    for step in self.failed().await {
                        self.operate(&step, Operation::ResetForRetry).await;
                    }
                }
                _ => {}
            }
            self.held = self.flow.now(9).await;
        }
        panic!("it does not end: {:?}", self.flow.states(self.task).await);
    }
}

/// Whatever operators and workers do, in any order: counters are correct, a step is ready exactly if all its parents
/// are done and no step failed, a worker that lost a step is rejected, and the task can be completed.
/// Graphs of all kinds of steps, and all operations, at random.
#[tokio::test]
async fn random_operations_keep_a_task_consistent() {
    const ROUNDS: u64 = 40;
    const ACTIONS: usize = 30;
    let flow = Fixture::new().await;
    for seed in 0..ROUNDS {
        let mut rng = Rng::with_seed(seed);
        let graph = graph(&mut rng);
        let name = format!("g{seed}");
        flow.template(&name, &graph.yaml).await;
        let task = flow.submit(submission(&name, json!({}))).await.expect("a task").task_uuid;
        let mut story = format!("seed {seed}: {}", graph.yaml);
        let mut meddled = Meddled { flow: &flow, graph, task, rng, held: Vec::new(), lost: Vec::new() };
        for _ in 0..ACTIONS {
            if flow.state_and_open_steps(task).await.0 == "complete" {
                break;
            }
            write!(story, "\n{}", meddled.anything().await).expect("text");
            flow.check_invariants(task, &story).await;
        }
        meddled.finish().await;
        flow.check_invariants(task, &story).await;
    }
}
