//! `reveille durable history`: a timeline.

use std::time::{Duration, SystemTime};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::instance;
use crate::{
    commands::remote::Remote,
    config::HistoryOf,
    error::Error,
    terminal::{Cell, Column, Style, Table, compact, duration},
};

/// The columns of the drawing.
const WIDTH: u64 = 32;

#[derive(Deserialize)]
struct Page {
    execution: Option<u64>,
    events: Vec<Event>,
    next: Option<u64>,
}

#[derive(Deserialize)]
struct Event {
    event_id: u64,
    turn: u64,
    #[serde(rename = "type")]
    kind: String,
    at: Option<String>,
    name: Option<String>,
    instance: Option<String>,
    duration_ms: Option<u64>,
    event: Option<Box<RawValue>>,
}

pub(super) async fn run(remote: &Remote, args: HistoryOf) -> Result<(), Error> {
    let route = instance(&args.instance)
        .and("history")
        .maybe("execution", args.execution)
        .maybe("after", args.after)
        .query("limit", args.limit);
    let route = if args.raw { route.query("format", "raw") } else { route };
    let answer = remote.client.get(&route).await?;
    if remote.screen.is_json() {
        return remote.screen.json(answer.text());
    }
    let page: Page = answer.json()?;
    let drawing = Drawing::of(&page.events);
    let mut table = Table::new([
        Column::number("event"),
        Column::number("turn"),
        Column::number("time"),
        Column::text("type"),
        Column::text("name"),
        Column::number("took"),
        Column::text(if args.raw { "payload" } else { "" }),
    ]);
    for event in &page.events {
        let took = event.duration_ms.map(|millis| duration(Duration::from_millis(millis)));
        let name = match (&event.name, &event.instance) {
            (Some(name), Some(instance)) => format!("{name} {instance}"),
            (name, instance) => name.clone().or_else(|| instance.clone()).unwrap_or_default(),
        };
        let last = match &event.event {
            Some(raw) => compact(raw.get()),
            None => drawing.line(event),
        };
        table.row([
            event.event_id.to_string().into(),
            event.turn.to_string().into(),
            drawing.offset(event).map_or_else(Cell::default, |at| format!("+{}", duration(at)).into()),
            Cell::styled(&event.kind, style(&event.kind)),
            name.into(),
            took.unwrap_or_default().into(),
            last.into(),
        ]);
    }
    remote.screen.table(&table, "no events")?;
    if let (Some(next), Some(execution)) = (page.next, page.execution) {
        remote.screen.note(format_args!("there are more: --execution {execution} --after {next} shows the next"));
    }
    Ok(())
}

fn style(kind: &str) -> Style {
    match kind {
        kind if kind.ends_with("Failed") || kind.contains("Cancel") => Style::Bad,
        kind if kind.ends_with("Completed") => Style::Good,
        _ => Style::Plain,
    }
}

/// The time of the page, from its first event to its last.
struct Drawing {
    first: Option<SystemTime>,
    millis: u64,
}

impl Drawing {
    fn of(events: &[Event]) -> Drawing {
        let times = || events.iter().filter_map(|event| time(event.at.as_deref()?));
        let (first, last) = (times().min(), times().max());
        let span = first.zip(last).and_then(|(first, last)| last.duration_since(first).ok());
        Drawing { first, millis: span.map_or(0, |span| span.as_millis() as u64) }
    }

    fn offset(&self, event: &Event) -> Option<Duration> {
        time(event.at.as_deref()?)?.duration_since(self.first?).ok()
    }

    /// A bar from the beginning to the end of what the event ends, or a dot.
    fn line(&self, event: &Event) -> String {
        let Some(at) = self.offset(event) else { return String::new() };
        let column = |millis: u64| (millis * (WIDTH - 1)).checked_div(self.millis).unwrap_or(0);
        let end = at.as_millis() as u64;
        let (from, to) = (column(end.saturating_sub(event.duration_ms.unwrap_or(0))), column(end));
        let before = " ".repeat(from as usize);
        match event.duration_ms {
            Some(_) => format!("{before}{}", "█".repeat((to - from + 1) as usize)),
            None => format!("{before}·"),
        }
    }
}

fn time(text: &str) -> Option<SystemTime> {
    reveille_web::parse_timestamp(text).map(SystemTime::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(second: u64, duration_ms: Option<u64>) -> Event {
        let at = Some(format!("2026-01-02T03:04:{second:02}Z"));
        let kind = "ActivityCompleted".to_owned();
        Event { event_id: 1, turn: 1, kind, at, name: None, instance: None, duration_ms, event: None }
    }

    /// A bar spans what an event ended, as far as the page shows it; an event without an end is a dot.
    #[test]
    fn bars_span_what_took_time() {
        let events = [event(0, None), event(31, Some(31_000)), event(20, Some(10_000)), event(5, Some(60_000))];
        let drawing = Drawing::of(&events);
        let lines: Vec<String> = events.iter().map(|event| drawing.line(event)).collect();
        assert_eq!(lines[0], "·");
        assert_eq!(lines[1], "█".repeat(32));
        assert_eq!(lines[2], format!("{}{}", " ".repeat(10), "█".repeat(11)));
        assert_eq!(lines[3], "█".repeat(6));
        assert_eq!(Drawing::of(&[event(3, None)]).line(&event(3, None)), "·");
    }
}
