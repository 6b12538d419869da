//! The history of an execution as a timeline: what happened when, and how long it took.

use maud::{Markup, html};
use time::OffsetDateTime;

use super::{api, link};
use crate::parts::value::visible;
use crate::parts::{Table, Tone, badge, duration, empty, value, when};
use crate::{Failure, Json, Visit};

/// Events of a page.
const PAGE: u32 = 200;
/// The width of a bar, in its own units.
const WIDTH: f64 = 240.0;
/// The narrowest bar.
const NARROWEST: f64 = 2.0;

pub(super) async fn history(id: &str, visit: &Visit) -> Result<Markup, Failure> {
    let is_raw = visit.parameter("view") == Some("raw");
    let url = api(id, ["history"])
        .with("limit", PAGE)
        .with_some("execution", visit.parameter("execution"))
        .with_some("after", visit.parameter("after"))
        .with_some("format", is_raw.then_some("raw"));
    let page: Json = visit.get(&url).await?;
    let events = page["events"].items();
    let span = Span::of(events);
    let heads = ["Event", "Type", "Name", "When", "Took#", if is_raw { "Stored event" } else { "Timeline" }];
    let table = Table::new("History", &heads)
        .rows(events, |event| row(event, is_raw, &span, visit))
        .or(empty("No events yet", "The first turn of a runtime writes the first events.", ""))
        .pages(visit, "after", &page["next"]);
    let other = if is_raw { visit.here().without("view") } else { visit.here().with("view", "raw") };
    Ok(html! {
        p {
            @if !page["execution"].is_null() { "Execution " (page["execution"].shown()) ", " (turns(events)) (if turns(events) == 1 { " turn" } else { " turns" }) " on this page. " }
            a href=(other) { @if is_raw { "Compact" } @else { "With payloads" } }
            @if visit.parameter("execution").is_some() { " · " a href=(link(id)) { "Current execution" } }
        }
        (table)
    })
}

fn row(event: &Json, is_raw: bool, span: &Span, visit: &Visit) -> Vec<Markup> {
    let kind = event["type"].text();
    let took = event["duration_ms"].integer().map(|millis| std::time::Duration::from_millis(millis.max(0) as u64));
    vec![
        html! { (event["event_id"].shown()) " " small { "turn " (event["turn"].shown()) } },
        badge(tone(kind), kind),
        html! {
            (visible(event["name"].text()))
            @if let Some(child) = event["instance"].as_text() { " " a href=(link(child)) { (visible(child)) } }
            @if !event["fire_at"].is_null() { " " small { "fires " (when(&event["fire_at"], visit.now)) } }
        },
        when(&event["at"], visit.now),
        html! { @if let Some(took) = took { (duration(took)) } },
        match is_raw {
            true => value(&event["event"]),
            false => span.bar(event),
        },
    ]
}

fn tone(kind: &str) -> Tone {
    match kind {
        _ if kind.ends_with("Failed") => Tone::Bad,
        _ if kind.contains("Cancel") => Tone::Warn,
        _ if kind.ends_with("Completed") || kind.ends_with("Fired") => Tone::Good,
        _ if kind.ends_with("Scheduled") || kind.ends_with("Created") || kind.contains("Subscribed") => Tone::Busy,
        _ => Tone::Quiet,
    }
}

fn turns(events: &[Json]) -> usize {
    let mut turns: Vec<i64> = events.iter().filter_map(|event| event["turn"].integer()).collect();
    turns.dedup();
    turns.len()
}

/// The time of a page, from its first event to its last.
struct Span {
    first: Option<OffsetDateTime>,
    millis: f64,
}

impl Span {
    fn of(events: &[Json]) -> Span {
        let times = || events.iter().filter_map(|event| reveille_web::parse_timestamp(event["at"].text()));
        let (first, last) = (times().min(), times().max());
        let millis = first.zip(last).map_or(0.0, |(first, last)| (last - first).as_seconds_f64() * 1_000.0);
        Span { first, millis }
    }

    /// From the beginning of what the event ends to its end; a narrow bar for an event that ends nothing.
    fn bar(&self, event: &Json) -> Markup {
        let (x, width) = self.extent(event);
        html! {
            svg.timeline viewBox={ "0 0 " (WIDTH) " 14" } width=(WIDTH) height="14" aria-hidden="true" {
                rect.(tone(event["type"].text()).class()) x=(format!("{x:.1}")) y="2" width=(format!("{width:.1}")) height="10" rx="2" {}
            }
        }
    }

    fn extent(&self, event: &Json) -> (f64, f64) {
        let at = reveille_web::parse_timestamp(event["at"].text());
        let Some((at, first)) = at.zip(self.first).filter(|_| self.millis > 0.0) else { return (0.0, NARROWEST) };
        let end = (at - first).as_seconds_f64() * 1_000.0 / self.millis * (WIDTH - NARROWEST);
        let took = event["duration_ms"].approximate().unwrap_or(0.0) / self.millis * (WIDTH - NARROWEST);
        let start = (end - took).max(0.0);
        (start, end - start + NARROWEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bars are within the drawing, in proportion to time, and begin where their activity began.
    #[test]
    fn bars_are_in_proportion() {
        let text = r#"[{"at":"2026-01-01T00:00:00Z"},{"at":"2026-01-01T00:00:01Z","duration_ms":500},
                       {"at":"2026-01-01T00:00:02Z","duration_ms":90000},{"at":null}]"#;
        let events = Json::parse(text).expect("JSON");
        let span = Span::of(events.items());
        let extents: Vec<(f64, f64)> = events.items().iter().map(|event| span.extent(event)).collect();
        assert_eq!(extents[0], (0.0, NARROWEST));
        assert_eq!(extents[1], (59.5, 61.5));
        assert_eq!(extents[2], (0.0, WIDTH));
        assert_eq!(extents[3], (0.0, NARROWEST));
        assert_eq!(Span::of(&[]).extent(&events.items()[0]), (0.0, NARROWEST));
    }

    /// Markup in names stays text.
    #[test]
    fn names_are_escaped() {
        let event = Json::parse(r#"{"type":"<b>","at":"2026-01-01T00:00:00Z","name":"<script>"}"#).expect("JSON");
        let bar = Span::of(&[]).bar(&event).into_string();
        assert!(bar.contains("rect") && !bar.contains("<b>"), "{bar}");
    }
}
