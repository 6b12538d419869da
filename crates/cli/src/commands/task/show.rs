//! `reveille task show`: a task as a graph or a timeline.

use std::time::{Duration, SystemTime};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    graph::{Steps, step_lines},
    route, state,
};
use crate::{
    client::Answer,
    commands::remote::Remote,
    error::Error,
    terminal::{Cell, Column, Style, Table, ago, bar, compact, duration, printable, when},
};

/// The columns of a timeline.
const TIMELINE: usize = 48;

/// A task, as the server describes it.
#[derive(Deserialize)]
pub(super) struct Task<'a> {
    task_uuid: String,
    namespace: String,
    name: String,
    version: String,
    pub(super) status: String,
    created_at: String,
    completed_at: Option<String>,
    reason: Option<String>,
    tags: Vec<String>,
    correlation_id: Option<String>,
    completed_steps: u64,
    total_steps: u64,
    #[serde(borrow)]
    context: &'a RawValue,
    pub(super) steps: Vec<Step>,
    #[serde(default)]
    steps_next: Option<String>,
}

/// A step of a task.
#[derive(Clone, Deserialize)]
pub(super) struct Step {
    pub(super) name: String,
    pub(super) state: String,
    pub(super) attempts: u64,
    max_attempts: u64,
    pub(super) dependencies: Vec<String>,
    ready_at: Option<String>,
    pub(super) claimed_at: Option<String>,
    pub(super) ended_at: Option<String>,
    next_due_at: Option<String>,
    pub(super) worker: Option<String>,
    last_error: Option<StepError>,
}

#[derive(Clone, Deserialize)]
struct StepError {
    #[serde(default)]
    message: String,
}

pub(super) async fn run(remote: &Remote, task: &str, timeline: bool) -> Result<(), Error> {
    let answer = remote.client.get(&route(task)).await?;
    remote.show(&answer, |task: Task<'_>| print(remote, &task, timeline))
}

/// Reads a task.
pub(super) fn read(answer: &Answer) -> Result<Task<'_>, Error> {
    Ok(answer.json()?)
}

fn print(remote: &Remote, task: &Task<'_>, timeline: bool) -> Result<(), Error> {
    let screen = &remote.screen;
    let mut properties = vec![
        ("task", task.task_uuid.clone()),
        ("template", printable(&format!("{}/{} {}", task.namespace, task.name, task.version)).into_owned()),
        ("state", screen.styled(&task.status, state::style(&task.status))),
        ("submitted", when(&task.created_at)),
    ];
    if let Some(ended) = &task.completed_at {
        properties.push(("ended", when(ended)));
    }
    for (name, value) in [("reason", &task.reason), ("correlation", &task.correlation_id)] {
        properties.extend(value.iter().map(|value| (name, printable(value).into_owned())));
    }
    if !task.tags.is_empty() {
        properties.push(("tags", printable(&task.tags.join(", ")).into_owned()));
    }
    properties.push(("context", printable(&compact(task.context.get())).into_owned()));
    properties.push(("steps", format!("{} of {} complete", task.completed_steps, task.total_steps)));
    screen.properties(&properties)?;
    screen.line("")?;
    screen.table(&if timeline { bars(task) } else { steps(&task.steps) }, "no steps")?;
    if let Some(next) = &task.steps_next {
        screen.note(format_args!("more steps follow after {}; --json has all fields of these", printable(next)));
    }
    Ok(())
}

/// The graph of steps, with their states and what each waits for.
pub(super) fn steps(steps: &[Step]) -> Table {
    let mut table = Table::new([
        Column::id("step"),
        Column::id("state"),
        Column::number("attempts"),
        Column::number("took"),
        Column::text("note"),
        Column::text("after"),
    ]);
    let named: Vec<_> = steps.iter().map(|step| (step.name.as_str(), step.dependencies.as_slice())).collect();
    let drawn = step_lines(&Steps(&named), |at| state::mark(&steps[at].state));
    for line in drawn.lines {
        let Some(step) = line.node.map(|at| &steps[at]) else {
            let none = Cell::default;
            table.row([line.text.into(), none(), none(), none(), none(), none()]);
            continue;
        };
        let attempts = format!("{} of {}", step.attempts, step.max_attempts);
        table.row([
            line.text.into(),
            state::cell(&step.state),
            if step.attempts == 0 { Cell::maybe(None::<u8>) } else { attempts.into() },
            Cell::maybe(took(step)),
            note(step, steps),
            step.dependencies.join(", ").into(),
        ]);
    }
    if drawn.is_graph { table.without("after") } else { table }
}

/// Why a step is not running, or who runs it, or why it failed.
fn note(step: &Step, steps: &[Step]) -> Cell {
    let error = step.last_error.as_ref().map(|error| error.message.as_str()).unwrap_or_default();
    let worker = step.worker.as_deref().unwrap_or("a worker");
    match step.state.as_str() {
        "in_progress" => Cell::styled(format!("claimed by {worker}"), Style::Dim),
        "waiting_for_retry" => {
            let due = step.next_due_at.as_deref().map(ago).unwrap_or_default();
            Cell::styled(format!("retried {due}: {error}"), Style::Busy)
        }
        "error" => Cell::styled(error, Style::Bad),
        "enqueued" => {
            let ready = step.ready_at.as_deref().map(ago).unwrap_or_default();
            Cell::styled(format!("ready {ready}, waits for a worker"), Style::Dim)
        }
        "pending" => {
            let is_open = |name: &&String| {
                let parent = steps.iter().find(|parent| parent.name == **name);
                parent.is_none_or(|parent| !state::is_well(&parent.state))
            };
            let open: Vec<&str> = step.dependencies.iter().filter(is_open).map(String::as_str).collect();
            let waits = if open.is_empty() { String::new() } else { format!("waits for {}", open.join(", ")) };
            Cell::styled(waits, Style::Dim)
        }
        _ => Cell::default(),
    }
}

/// How long the last attempt ran; of one in progress so far.
fn took(step: &Step) -> Option<String> {
    let claimed = time(step.claimed_at.as_deref()?)?;
    let ended = match &step.ended_at {
        Some(ended) => time(ended)?,
        None if step.state == "in_progress" => SystemTime::now(),
        None => return None,
    };
    Some(duration(ended.duration_since(claimed).unwrap_or_default()))
}

/// When each step waited and ran, on the time of the whole task.
fn bars(task: &Task<'_>) -> Table {
    let mut table = Table::new([
        Column::id("step"),
        Column::id("state"),
        Column::number("waited"),
        Column::number("took"),
        Column::id("timeline"),
    ]);
    let began = time(&task.created_at).unwrap_or(SystemTime::UNIX_EPOCH);
    let ended = task.completed_at.as_deref().and_then(time).unwrap_or_else(SystemTime::now);
    let whole = ended.duration_since(began).unwrap_or_default().max(Duration::from_millis(1));
    let share = |at: SystemTime| at.duration_since(began).unwrap_or_default().as_secs_f64() / whole.as_secs_f64();
    for step in &task.steps {
        let at = |text: &Option<String>| text.as_deref().and_then(time);
        let (ready, claimed, finished) = (at(&step.ready_at), at(&step.claimed_at), at(&step.ended_at));
        let from = ready.or(claimed).or(finished);
        let waited = ready.zip(claimed).map(|(ready, claimed)| claimed.duration_since(ready).unwrap_or_default());
        let drawn = from.map(|from| {
            let until = finished.unwrap_or(ended);
            bar(TIMELINE, share(from), claimed.map(share), share(until))
        });
        table.row([
            format!("{} {}", state::mark(&step.state), step.name).into(),
            state::cell(&step.state),
            Cell::maybe(waited.map(duration)),
            Cell::maybe(took(step)),
            Cell::styled(drawn.unwrap_or_default(), state::style(&step.state)),
        ]);
    }
    table
}

fn time(text: &str) -> Option<SystemTime> {
    reveille_web::parse_timestamp(text).map(SystemTime::from)
}
