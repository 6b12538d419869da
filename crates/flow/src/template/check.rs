//! Checks a parsed template and builds the [`Template`] from it. Collects all faults instead of stopping at the first.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde_json::Value;
use serde_saphyr::{Location, Spanned};

use super::document::{Batch, Changed, Document, Environment, Event, Handler, Lifecycle, Retry, Step};
use super::fault::{Collected, Faults};
use super::free::Free;
use super::kinds;
use super::{ATTEMPTS_MAX, NAME_MAX, STEPS_MAX};
use super::{Backoff, BatchConfig, FailureStrategy, IdentityStrategy, PublishWhen, PublishedEvent, StalenessAction};
use super::{StepDefinition, StepKind, Template};
use crate::template::graph::Graph;
use crate::template::schema::Schema;

/// The namespace and the version of a template that does not name them.
const DEFAULT_NAMESPACE: &str = "default";
const DEFAULT_VERSION: &str = "1.0.0";
/// The memory that the compiled regular expressions of all schemas of a template may need: five hundred of the usual
/// size.
const PATTERN_BYTES_MAX: usize = 32 << 20;
/// Steps of a cycle that the message names.
const CYCLE_SHOWN: usize = 5;
/// The longest duration that a template may set.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

const RETRY: super::Retry = super::Retry {
    retryable: true,
    max_attempts: 3,
    backoff: Backoff::Exponential,
    backoff_base_ms: 1_000,
    max_backoff_ms: 60_000,
    jitter: 0.0,
};

/// Checks a template for one environment.
pub(super) fn template(document: Document, environment: Option<&str>) -> Result<Template, Faults> {
    checked(document, environment, Collected::default())
}

/// Checks a template that was registered before. Limits introduced since then do not make it unreadable.
pub(super) fn registered(document: Document) -> Result<Template, Faults> {
    checked(document, None, Collected::of_registered())
}

fn checked(document: Document, environment: Option<&str>, mut faults: Collected) -> Result<Template, Faults> {
    if !faults.reads_again {
        document.inexact.into_iter().for_each(|(at, message)| faults.add(at, message));
    }
    let namespace = document.namespace_name.as_ref().map(|name| named(name, "namespace", &mut faults));
    let version = document.version.as_ref().map(|version| named(version, "version", &mut faults));
    let mut made = Template {
        name: named(&document.name, "template name", &mut faults),
        namespace: namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()),
        version: version.unwrap_or_else(|| DEFAULT_VERSION.to_owned()),
        description: document.description,
        identity_strategy: identity(document.identity_strategy.as_ref(), &mut faults),
        lifecycle: lifecycle(&document.lifecycle, &mut faults),
        input_schema: schema(document.input_schema, "input_schema", &mut faults),
        steps: Vec::new(),
    };
    if document.steps.len() > STEPS_MAX {
        let message = format!("too many steps: at most {STEPS_MAX} are allowed, got {}", document.steps.len());
        faults.add(document.name.referenced, message);
        return faults.unless_any(made);
    }
    let indexes = indexes(&document.steps, &mut faults);
    let changes = changes(&document.environments, environment, &indexes, &mut faults);
    let lines: Vec<Location> = document.steps.iter().map(|step| step.name.referenced).collect();
    let edges: Vec<Vec<Edge>> = document.steps.iter().map(|step| edges(step, &indexes, &mut faults)).collect();
    for step in document.steps {
        let change = changes.get(step.name.value.as_str()).copied();
        made.steps.push(definition(step, change, &mut faults));
    }
    connect(&mut made.steps, &lines, edges, &mut faults);
    kinds::check(&made, &lines, &mut faults);
    faults.unless_any(made)
}

/// The index of each step by its name.
fn indexes(steps: &[Step], faults: &mut Collected) -> HashMap<String, usize> {
    let mut indexes = HashMap::new();
    for (index, step) in steps.iter().enumerate() {
        if let Some(first) = indexes.insert(step.name.value.clone(), index) {
            let line = steps[first].name.referenced.line();
            let message = format!("duplicate step {:?}: already defined in line {line}", step.name.value);
            faults.add(step.name.referenced, message);
        }
    }
    indexes
}

/// A dependency and its position in the text.
struct Edge {
    parent: usize,
    at: Location,
}

fn edges(step: &Step, indexes: &HashMap<String, usize>, faults: &mut Collected) -> Vec<Edge> {
    let mut edges: Vec<Edge> = Vec::new();
    let mut known = HashSet::new();
    for dependency in &step.dependencies {
        let at = dependency.referenced;
        match indexes.get(&dependency.value) {
            Some(parent) if !known.insert(*parent) => {
                faults.add(at, format!("step {:?} lists the dependency {:?} twice", step.name.value, dependency.value));
            }
            Some(parent) => edges.push(Edge { parent: *parent, at }),
            None => {
                let message = format!("step {:?} depends on unknown step {:?}", step.name.value, dependency.value);
                faults.add(at, message);
            }
        }
    }
    edges
}

/// Sets the parents and children of every step, unless there is a cycle.
fn connect(steps: &mut [StepDefinition], lines: &[Location], edges: Vec<Vec<Edge>>, faults: &mut Collected) {
    let parents = edges.iter().map(|edges| edges.iter().map(|edge| edge.parent).collect()).collect();
    match Graph::new(parents) {
        Err(cycle) => {
            let name = |index: &usize| steps[*index].name.as_str();
            let on_it: HashSet<usize> = cycle.iter().copied().collect();
            let at = cycle.first().and_then(|first| edges[*first].iter().find(|edge| on_it.contains(&edge.parent)));
            let at = at.map_or(lines[cycle[0]], |edge| edge.at);
            let path: Vec<&str> = cycle.iter().take(CYCLE_SHOWN).map(name).collect();
            let path = path.join(" depends on ");
            let first = name(&cycle[0]);
            let rest = match cycle.len().saturating_sub(CYCLE_SHOWN) {
                0 => format!(" depends on {first}"),
                more => format!(" depends on {more} more, of which the last depends on {first}"),
            };
            faults.add(at, format!("dependency cycle: {path}{rest}"));
        }
        Ok(graph) => {
            for index in graph.order() {
                let absent = |parent: &usize| steps[*parent].absent || steps[*parent].kind == StepKind::Decision;
                let parents = graph.parents(index).to_vec();
                let absent = match steps[index].kind {
                    StepKind::BatchWorker => true,
                    StepKind::DeferredConvergence => parents.iter().all(absent),
                    _ => parents.iter().any(absent),
                };
                let step = &mut steps[index];
                (step.parents, step.children, step.absent) = (parents, graph.children(index).to_vec(), absent);
            }
        }
    }
}

/// The overrides of the environment, by step name.
fn changes<'a>(
    environments: &'a std::collections::BTreeMap<String, Environment>,
    environment: Option<&str>,
    indexes: &HashMap<String, usize>,
    faults: &mut Collected,
) -> HashMap<&'a str, &'a Changed> {
    let all = environments.values().flat_map(|environment| &environment.steps);
    for changed in all.filter(|changed| !indexes.contains_key(&changed.name.value)) {
        faults.add(changed.name.referenced, format!("override of unknown step {:?}", changed.name.value));
    }
    let mine =
        environment.and_then(|name| environments.get(name)).into_iter().flat_map(|environment| &environment.steps);
    mine.map(|changed| (changed.name.value.as_str(), changed)).collect()
}

fn definition(step: Step, change: Option<&Changed>, faults: &mut Collected) -> StepDefinition {
    let name = named(&step.name, "step name", faults);
    let handler = handler(&step, change.and_then(|change| change.handler.as_ref()), faults);
    let timeout = change.and_then(|change| change.timeout_seconds.as_ref()).or(step.timeout_seconds.as_ref());
    StepDefinition {
        kind: step
            .kind
            .as_ref()
            .map_or(StepKind::Standard, |kind| one_of(kind, "step type", &KINDS, faults).unwrap_or(StepKind::Standard)),
        retry: retry(&step.retry, change.and_then(|change| change.retry.as_ref()), faults),
        timeout: timeout.and_then(|timeout| duration(timeout, 1.0, "timeout_seconds", faults)),
        publishes_events: step.publishes_events.iter().map(|event| published(event, faults)).collect(),
        batch_config: step.batch_config.and_then(|batch| batched(batch, faults)),
        result_schema: schema(step.result_schema, "result_schema", faults),
        dependencies: step.dependencies.into_iter().map(|dependency| dependency.value).collect(),
        description: step.description,
        name,
        handler,
        parents: Vec::new(),
        children: Vec::new(),
        absent: false,
    }
}

/// The handler of a step; by default it is named like the step.
fn handler(step: &Step, change: Option<&Handler>, faults: &mut Collected) -> super::HandlerDefinition {
    let of = |handler: &Handler| handler.callable.clone();
    let callable = change.and_then(of).or_else(|| step.handler.as_ref().and_then(of));
    let initialization = change.and_then(|handler| handler.initialization.clone());
    let initialization =
        initialization.or_else(|| step.handler.as_ref().and_then(|handler| handler.initialization.clone()));
    super::HandlerDefinition {
        callable: callable.map_or_else(|| step.name.value.clone(), |callable| named(&callable, "callable", faults)),
        initialization: initialization
            .map_or_else(|| Value::Object(serde_json::Map::new()), |initialization| initialization.value.value),
    }
}

const KINDS: [(&str, StepKind); 7] = [
    ("standard", StepKind::Standard),
    ("decision", StepKind::Decision),
    ("decision_point", StepKind::Decision),
    ("deferred_convergence", StepKind::DeferredConvergence),
    ("deferred", StepKind::DeferredConvergence),
    ("batchable", StepKind::Batchable),
    ("batch_worker", StepKind::BatchWorker),
];

fn retry(own: &Retry, change: Option<&Retry>, faults: &mut Collected) -> super::Retry {
    let change = change.cloned().unwrap_or_default();
    let mut made = RETRY;
    if let Some(retryable) = change.retryable.or(own.retryable) {
        made.retryable = retryable;
    }
    if let Some(attempts) = change.max_attempts.as_ref().or(own.max_attempts.as_ref()) {
        made.max_attempts = whole(attempts, 1, ATTEMPTS_MAX.into(), "max_attempts", faults) as u16;
    }
    if let Some(kind) = change.backoff.as_ref().or(own.backoff.as_ref()) {
        let kinds = [
            ("none", Backoff::None),
            ("linear", Backoff::Linear),
            ("exponential", Backoff::Exponential),
            ("fibonacci", Backoff::Fibonacci),
        ];
        made.backoff = one_of(kind, "backoff", &kinds, faults).unwrap_or(made.backoff);
    }
    let longest = i64::from(i32::MAX);
    if let Some(base) = change.backoff_base_ms.as_ref().or(own.backoff_base_ms.as_ref()) {
        made.backoff_base_ms = whole(base, 0, longest, "backoff_base_ms", faults) as u32;
    }
    if let Some(most) = change.max_backoff_ms.as_ref().or(own.max_backoff_ms.as_ref()) {
        made.max_backoff_ms = whole(most, 0, longest, "max_backoff_ms", faults) as u32;
    }
    if let Some(jitter) = change.jitter.as_ref().or(own.jitter.as_ref()) {
        if !(0.0..=1.0).contains(&jitter.value) {
            faults.add(jitter.referenced, format!("invalid jitter: must be between 0 and 1, got {}", jitter.value));
        }
        made.jitter = jitter.value as f32;
    }
    made
}

fn published(event: &Event, faults: &mut Collected) -> PublishedEvent {
    let conditions =
        [("success", PublishWhen::Success), ("failure", PublishWhen::Failure), ("always", PublishWhen::Always)];
    let condition = event.condition.as_ref().map(|condition| one_of(condition, "condition", &conditions, faults));
    PublishedEvent {
        name: named(&event.name, "event name", faults),
        condition: condition.flatten().unwrap_or(PublishWhen::Success),
    }
}

fn batched(batch: Spanned<Batch>, faults: &mut Collected) -> Option<BatchConfig> {
    let at = batch.referenced;
    let strategies = [
        ("fail_fast", FailureStrategy::FailFast),
        ("continue_on_failure", FailureStrategy::ContinueOnFailure),
        ("isolate", FailureStrategy::Isolate),
    ];
    let Batch { worker_template, failure_strategy, hints } = batch.value;
    let strategy = failure_strategy.map(|name| Spanned { value: name, referenced: at, defined: at });
    let failure_strategy = strategy
        .and_then(|name| one_of(&name, "failure_strategy", &strategies, faults))
        .unwrap_or(FailureStrategy::FailFast);
    let Some(worker_template) = worker_template else {
        faults.add(at, "missing worker_template in batch_config");
        return None;
    };
    let hints = hints.into_iter().map(|(name, hint)| (name, hint.value.value)).collect();
    Some(BatchConfig { worker_template, failure_strategy, hints })
}

fn identity(name: Option<&Spanned<String>>, faults: &mut Collected) -> IdentityStrategy {
    let strategies = [
        ("strict", IdentityStrategy::Strict),
        ("caller_provided", IdentityStrategy::CallerProvided),
        ("always_unique", IdentityStrategy::AlwaysUnique),
    ];
    name.and_then(|name| one_of(name, "identity_strategy", &strategies, faults)).unwrap_or(IdentityStrategy::Strict)
}

fn lifecycle(own: &Lifecycle, faults: &mut Collected) -> super::Lifecycle {
    let actions = [("dlq", StalenessAction::Dlq), ("alert", StalenessAction::Alert), ("error", StalenessAction::Error)];
    let action = own.staleness_action.as_ref();
    let action = action.and_then(|action| one_of(action, "staleness_action", &actions, faults));
    let mut minutes = |limit: &Option<Spanned<f64>>, what: &str| {
        let limit = limit.as_ref()?;
        duration(limit, 60.0, what, faults).map(|_| limit.value)
    };
    super::Lifecycle {
        max_duration_minutes: minutes(&own.max_duration_minutes, "max_duration_minutes"),
        max_waiting_for_dependencies_minutes: minutes(
            &own.max_waiting_for_dependencies_minutes,
            "max_waiting_for_dependencies_minutes",
        ),
        max_waiting_for_retry_minutes: minutes(&own.max_waiting_for_retry_minutes, "max_waiting_for_retry_minutes"),
        max_steps_in_process_minutes: minutes(&own.max_steps_in_process_minutes, "max_steps_in_process_minutes"),
        staleness_action: action.unwrap_or_default(),
    }
}

/// Checks a JSON Schema.
fn schema(schema: Option<Spanned<Free>>, what: &str, faults: &mut Collected) -> Option<Value> {
    let Spanned { value: Free { value: schema, .. }, referenced, .. } = schema?;
    if faults.reads_again {
        return Some(schema);
    }
    match Schema::new(&schema) {
        Err(reason) => faults.add(referenced, format!("invalid {what}: {reason}")),
        Ok(ready) => {
            faults.pattern_bytes += ready.bytes();
            if faults.pattern_bytes > PATTERN_BYTES_MAX {
                let message = format!(
                    "invalid {what}: the regular expressions of all schemas need more than {PATTERN_BYTES_MAX} bytes"
                );
                faults.add(referenced, message);
            }
        }
    }
    Some(schema)
}

/// Checks a name: not empty, not too long, without control characters.
fn named(name: &Spanned<String>, what: &str, faults: &mut Collected) -> String {
    let length = name.value.chars().count();
    if name.value.trim().is_empty() {
        faults.add(name.referenced, format!("invalid {what}: must not be empty"));
    } else if length > NAME_MAX {
        let message = format!("invalid {what}: at most {NAME_MAX} characters are allowed, got {length}");
        faults.add(name.referenced, message);
    } else if let Some(odd) = name.value.chars().find(|character| character.is_control()) {
        faults.add(name.referenced, format!("invalid {what}: contains the control character {odd:?}"));
    }
    name.value.clone()
}

/// The value of a keyword.
fn one_of<T: Copy>(name: &Spanned<String>, what: &str, all: &[(&str, T)], faults: &mut Collected) -> Option<T> {
    let found = all.iter().find(|(word, _)| *word == name.value).map(|(_, meaning)| *meaning);
    if found.is_none() {
        let words: Vec<&str> = all.iter().map(|(word, _)| *word).collect();
        let message = format!("invalid {what} {:?}: must be one of {}", name.value, words.join(", "));
        faults.add(name.referenced, message);
    }
    found
}

fn whole(number: &Spanned<i64>, least: i64, most: i64, what: &str, faults: &mut Collected) -> i64 {
    if !(least..=most).contains(&number.value) {
        let message = format!("invalid {what}: must be between {least} and {most}, got {}", number.value);
        faults.add(number.referenced, message);
    }
    number.value.clamp(least, most)
}

/// A duration in the given unit of seconds.
fn duration(number: &Spanned<f64>, unit: f64, what: &str, faults: &mut Collected) -> Option<Duration> {
    let duration = Duration::try_from_secs_f64(number.value * unit).ok();
    let duration = duration.filter(|duration| !duration.is_zero() && *duration <= LONGEST);
    if duration.is_none() {
        let most = LONGEST.as_secs_f64() / unit;
        let message = format!("invalid {what}: must be greater than 0 and at most {most}, got {}", number.value);
        faults.add(number.referenced, message);
    }
    duration
}
