//! Random graphs with random failures, run by workers of the SDK.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};

use reveille_flow::{Failure, Step};
use serde_json::json;
use uuid::Uuid;

use crate::fixture::{Fixture, NAMESPACE, submission};
use crate::workers::stopped;

const STEPS: usize = 10;
const ATTEMPTS: u32 = 3;

/// The plan of a step: this many attempts fail, by an error or a panic; then it completes, or fails permanently.
#[derive(Debug, Clone, Copy)]
struct StepPlan {
    failures: u32,
    by_panic: bool,
    for_good: bool,
}

/// A graph, and the plans of its steps.
#[derive(Debug)]
struct Plan {
    parents: Vec<Vec<usize>>,
    steps: Vec<StepPlan>,
}

impl Plan {
    fn random(rng: &mut fastrand::Rng) -> Plan {
        let parents = (0..STEPS).map(|step| (0..step).filter(|_| rng.u8(..4) == 0).collect()).collect();
        let step = |rng: &mut fastrand::Rng| StepPlan {
            failures: if rng.u8(..3) == 0 { rng.u32(1..ATTEMPTS) } else { 0 },
            by_panic: rng.bool(),
            for_good: rng.u8(..25) == 0,
        };
        Plan { parents, steps: (0..STEPS).map(|_| step(rng)).collect() }
    }

    fn steps(&self) -> String {
        let step = |(step, parents): (usize, &Vec<usize>)| {
            let names: Vec<String> = parents.iter().map(|parent| format!("s{parent}")).collect();
            format!(
                "{{name: s{step}, dependencies: [{}], handler: {{callable: step}}, retry: {{max_attempts: {ATTEMPTS}, backoff: none}}}}",
                names.join(", ")
            )
        };
        format!("[{}]", self.parents.iter().enumerate().map(step).collect::<Vec<_>>().join(", "))
    }

    fn fails(&self) -> bool {
        self.steps.iter().any(|step| step.for_good)
    }
}

/// The completed steps of each task, as handlers saw them.
#[derive(Default)]
struct Seen {
    done: HashMap<Uuid, HashSet<usize>>,
    wrong: Vec<String>,
}

/// Whatever the graph and its failures: every step runs after its parents and with their results, is completed exactly
/// once after the planned attempts, and its task ends as planned. Three workers with several handlers share the steps.
#[tokio::test(flavor = "multi_thread")]
async fn random_graphs_with_random_failures_end_as_planned() {
    let flow = Fixture::new().await;
    let (plans, seen) =
        (Arc::new(Mutex::new(HashMap::<String, Arc<Plan>>::new())), Arc::new(Mutex::new(Seen::default())));
    let carry = {
        let (plans, seen) = (plans.clone(), seen.clone());
        move |step: Step<String>| {
            let plan = plans.lock().expect("no panic")[&step.context].clone();
            let seen = seen.clone();
            async move {
                let position: usize = step.name()[1..].parse()?;
                let planned = plan.steps[position];
                for parent in &plan.parents[position] {
                    let result: usize = step.result(&format!("s{parent}"))?;
                    let mut seen = seen.lock().expect("no panic");
                    if result != *parent || !seen.done.entry(step.task()).or_default().contains(parent) {
                        seen.wrong.push(format!("{} before its parent {parent}", step.name()));
                    }
                }
                tokio::task::yield_now().await;
                if step.attempt() <= planned.failures {
                    assert!(!planned.by_panic, "as planned");
                    return Err(Failure::new("as planned"));
                }
                if planned.for_good {
                    return Err(Failure::permanent("for good"));
                }
                let mut seen = seen.lock().expect("no panic");
                if !seen.done.entry(step.task()).or_default().insert(position) {
                    seen.wrong.push(format!("{} twice", step.name()));
                }
                Ok(position)
            }
        }
    };
    let worker = |name: &str| flow.worker(name).namespace(NAMESPACE).concurrency(4).handle("step", carry.clone());
    let workers = ["one", "two", "three"].map(|name| worker(name).start().expect("a worker"));

    let mut tasks = Vec::new();
    for seed in 0..16 {
        let plan = Arc::new(Plan::random(&mut fastrand::Rng::with_seed(seed)));
        let name = format!("g{seed}");
        flow.template(&name, &plan.steps()).await;
        plans.lock().expect("no panic").insert(name.clone(), plan.clone());
        let task = flow.submit(submission(&name, json!(name))).await.expect("a task").task_uuid;
        tasks.push((seed, task, plan));
    }
    assert!(
        tasks.iter().any(|(.., plan)| plan.fails()) && tasks.iter().any(|(.., plan)| !plan.fails()),
        "of each kind"
    );
    for (seed, task, plan) in &tasks {
        flow.ends(*task, if plan.fails() { "error" } else { "complete" }).await;
        let done = seen.lock().expect("no panic").done.remove(task).unwrap_or_default();
        for (position, outcomes) in outcomes(&flow, *task).await {
            let StepPlan { failures, for_good, .. } = plan.steps[position];
            let mut expected = vec!["failed"; failures as usize];
            expected.push(if for_good { "failed_for_good" } else { "complete" });
            // In a failed task a step may not have had all its attempts.
            let whole = !plan.fails() || done.contains(&position);
            assert!(
                expected.starts_with(&outcomes.iter().map(String::as_str).collect::<Vec<_>>()),
                "seed {seed}: {position} {outcomes:?}"
            );
            assert!(!whole || outcomes.len() == expected.len(), "seed {seed}: {position} {outcomes:?}");
        }
        assert!(plan.fails() || done.len() == STEPS, "seed {seed}: {done:?}");
    }
    assert_eq!(seen.lock().expect("no panic").wrong, [""; 0]);
    for worker in workers {
        assert_eq!(stopped(worker).await.lost, 0);
    }
}

/// How the attempts of each step ended, in order, without those that no worker began: a step that a slow write has
/// claimed is given back.
async fn outcomes(flow: &Fixture, task: Uuid) -> BTreeMap<usize, Vec<String>> {
    let sql = flow.db.schema().sql(
        "select a.ordinal, a.outcome::text from {schema}.attempt a \
         where a.task_id = $1 and a.outcome <> 'given_back' order by a.ordinal, a.attempt, a.ended_at",
    );
    let rows: Vec<(i32, String)> =
        sqlx::query_as(&sql).bind(task).fetch_all(flow.db.database().pool()).await.expect("attempts");
    let mut outcomes: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (step, outcome) in rows {
        outcomes.entry(step as usize).or_default().push(outcome);
    }
    outcomes
}
