//! `reveille task show --step`: one step with its values and attempts.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{state, step_route};
use crate::{
    client::Answer,
    commands::remote::Remote,
    error::Error,
    terminal::{Cell, Column, Style, Table, ago, duration, pretty, printable, when},
};

#[derive(Deserialize)]
struct Step<'a> {
    name: String,
    r#type: String,
    callable: String,
    state: String,
    dependencies: Vec<String>,
    next_due_at: Option<String>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    last_error: Option<&'a RawValue>,
    #[serde(borrow)]
    checkpoint: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Audit<'a> {
    #[serde(borrow)]
    attempts: Vec<Attempt<'a>>,
}

#[derive(Deserialize)]
struct Attempt<'a> {
    attempt: u64,
    outcome: String,
    worker: Option<String>,
    claimed_at: Option<String>,
    waited_ms: Option<u64>,
    duration_ms: Option<u64>,
    reason: Option<String>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

pub(super) async fn run(remote: &Remote, task: &str, step: &str) -> Result<(), Error> {
    let answer = remote.client.get(&step_route(task, step)).await?;
    if remote.screen.is_json() {
        return remote.screen.json(answer.text());
    }
    print(remote, &answer.json()?)?;
    let audit = remote.client.get(&step_route(task, step).and("audit")).await?;
    attempts(remote, &audit)
}

fn print(remote: &Remote, step: &Step<'_>) -> Result<(), Error> {
    let screen = &remote.screen;
    let mut properties = vec![
        ("step", printable(&step.name).into_owned()),
        ("state", screen.styled(&step.state, state::style(&step.state))),
        ("type", step.r#type.clone()),
        ("callable", printable(&step.callable).into_owned()),
        ("after", printable(&step.dependencies.join(", ")).into_owned()),
    ];
    if let Some(due) = step.next_due_at.as_deref().filter(|_| !state::has_ended(&step.state)) {
        properties.push(("due", when(due)));
    }
    screen.properties(&properties)?;
    let values =
        [("input", step.input), ("result", step.result), ("error", step.last_error), ("checkpoint", step.checkpoint)];
    for (name, value) in values.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        screen.line(format_args!("\n{}", screen.styled(name, Style::Bold)))?;
        for line in pretty(value.get()).lines() {
            screen.line(printable(line))?;
        }
    }
    Ok(())
}

fn attempts(remote: &Remote, answer: &Answer) -> Result<(), Error> {
    let audit: Audit<'_> = answer.json()?;
    let mut table = Table::new([
        Column::number("attempt"),
        Column::text("outcome"),
        Column::text("worker"),
        Column::text("began"),
        Column::number("waited"),
        Column::number("took"),
        Column::text("reason"),
    ]);
    let span = |millis: Option<u64>| Cell::maybe(millis.map(|it| duration(std::time::Duration::from_millis(it))));
    for attempt in &audit.attempts {
        let style = match attempt.outcome.as_str() {
            "complete" => Style::Good,
            "in_progress" => Style::Busy,
            "failed" | "failed_for_good" | "lease_ended" | "timed_out" | "timed_out_for_good" => Style::Bad,
            _ => Style::Plain,
        };
        let error = attempt.error.and_then(|error| {
            serde_json::from_str::<serde_json::Value>(error.get()).ok()?.get("message")?.as_str().map(str::to_owned)
        });
        table.row([
            attempt.attempt.to_string().into(),
            Cell::styled(&attempt.outcome, style),
            Cell::maybe(attempt.worker.as_deref()),
            Cell::maybe(attempt.claimed_at.as_deref().map(ago)),
            span(attempt.waited_ms),
            span(attempt.duration_ms),
            error.or_else(|| attempt.reason.clone()).unwrap_or_default().into(),
        ]);
    }
    if table.is_empty() {
        return Ok(());
    }
    remote.screen.line("")?;
    remote.screen.table(&table, "")
}
