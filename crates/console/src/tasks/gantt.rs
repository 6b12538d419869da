//! The attempts of a task over time: a bar from ready to claimed, and one from claimed to the end.

use std::time::Duration;

use maud::{Markup, html};
use time::OffsetDateTime;

use super::one::step_page;
use super::state;
use crate::parts::{duration, empty};
use crate::{Json, Visit};

/// The width of the drawing and of the names beside it, and the height of a row, in pixels.
const WIDTH: f64 = 960.0;
const NAMES: f64 = 190.0;
const ROW: f64 = 24.0;
const TOP: f64 = 24.0;
/// The narrowest bar that can be seen.
const BAR_MIN: f64 = 2.0;
/// Characters of a name that fit beside the drawing.
const SHOWN: usize = 26;
/// The most steps that are drawn.
const ROWS_MAX: usize = 300;

/// An attempt in seconds since the first one became ready.
#[derive(Debug, PartialEq)]
struct Bar<'a> {
    step: &'a str,
    attempt: String,
    outcome: &'a str,
    worker: &'a str,
    ready: Option<f64>,
    claimed: Option<f64>,
    ended: f64,
}

/// Draws the attempts of a task, one row per step.
pub(super) fn draw(visit: &Visit, task: &str, attempts: &[Json]) -> Markup {
    let (bars, whole) = bars(attempts, visit.now);
    if bars.is_empty() {
        return empty("No attempt yet", "When a worker has claimed a step, its attempts are drawn here.", "");
    }
    let mut rows: Vec<&str> = Vec::new();
    for bar in &bars {
        if !rows.contains(&bar.step) && rows.len() < ROWS_MAX {
            rows.push(bar.step);
        }
    }
    let at = |seconds: f64| NAMES + seconds / whole * (WIDTH - NAMES);
    let height = TOP + rows.len() as f64 * ROW;
    html! {
        div.gantt tabindex="0" role="region" aria-label="Attempts over time" {
            svg viewBox={ "0 0 " (WIDTH) " " (height) } width=(WIDTH) height=(height) role="group" aria-label="Attempts over time" {
                @for part in 0..5 {
                    @let seconds = whole * f64::from(part) / 4.0;
                    line.grid x1=(round(at(seconds))) x2=(round(at(seconds))) y1=(TOP - 6.0) y2=(height) {}
                    text.tick x=(round(at(seconds))) y="12" text-anchor=(if part == 0 { "start" } else if part == 4 { "end" } else { "middle" }) {
                        "+" (duration(Duration::from_secs_f64(seconds)))
                    }
                }
                @for (index, step) in rows.iter().enumerate() {
                    @let y = TOP + index as f64 * ROW;
                    a href=(step_page(task, step)) { text.name x="0" y=(y + 15.0) { (short(step)) title { (step) } } }
                    @for bar in bars.iter().filter(|bar| bar.step == *step) {
                        @let begun = bar.claimed.unwrap_or(bar.ended);
                        @if let Some(ready) = bar.ready {
                            rect.waited x=(round(at(ready))) y=(y + 9.0) width=(round((at(begun) - at(ready)).max(0.0))) height="4" {}
                        }
                        rect.(state::tone(bar.outcome).class()) x=(round(at(begun))) y=(y + 4.0) rx="2" height="14"
                            width=(round((at(bar.ended) - at(begun)).max(BAR_MIN))) {
                            title {
                                (bar.step) ", attempt " (bar.attempt) ": " (state::words(bar.outcome)) ", "
                                (duration(Duration::from_secs_f64((bar.ended - begun).max(0.0)))) " by " (bar.worker)
                            }
                        }
                    }
                }
            }
        }
        p.quiet {
            "Thin: ready and waiting for a worker. Thick: in progress, or ended."
            @if rows.len() == ROWS_MAX { " Only the first " (ROWS_MAX) " steps are drawn." }
        }
    }
}

/// The bars in the order of their beginning, and the seconds that all of them take.
fn bars(attempts: &[Json], now: OffsetDateTime) -> (Vec<Bar<'_>>, f64) {
    let time = |attempt: &Json, name: &str| reveille_web::parse_timestamp(attempt[name].text());
    let times =
        attempts.iter().flat_map(|attempt| ["ready_at", "claimed_at", "ended_at"].map(|name| time(attempt, name)));
    let Some(first) = times.flatten().min() else { return (Vec::new(), 1.0) };
    let since = |at: OffsetDateTime| (at - first).as_seconds_f64();
    let mut bars: Vec<Bar<'_>> = attempts
        .iter()
        .map(|attempt| Bar {
            step: attempt["step"].text(),
            attempt: attempt["attempt"].shown(),
            outcome: attempt["outcome"].text(),
            worker: attempt["worker"].text(),
            ready: time(attempt, "ready_at").map(since),
            claimed: time(attempt, "claimed_at").map(since),
            ended: since(time(attempt, "ended_at").unwrap_or(now)).max(0.0),
        })
        .collect();
    let begin = |bar: &Bar<'_>| bar.ready.or(bar.claimed).unwrap_or(bar.ended);
    bars.sort_by(|one, other| begin(one).total_cmp(&begin(other)));
    let whole = bars.iter().map(|bar| bar.ended).fold(0.001, f64::max);
    (bars, whole)
}

fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn short(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        None => text.to_owned(),
        Some(_) => text.chars().take(SHOWN - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bars begin at the first event of the task; an attempt in progress ends now.
    #[test]
    fn bars_count_from_the_first_event() {
        let attempts = Json::parse(
            r#"[{"step":"b","attempt":1,"outcome":"in_progress","worker":"w","ready_at":"2026-01-01T00:00:04Z","claimed_at":"2026-01-01T00:00:05Z","ended_at":null},
                {"step":"a","attempt":1,"outcome":"complete","worker":"w","ready_at":"2026-01-01T00:00:00Z","claimed_at":"2026-01-01T00:00:01Z","ended_at":"2026-01-01T00:00:04Z"}]"#,
        )
        .expect("JSON");
        let now = reveille_web::parse_timestamp("2026-01-01T00:00:10Z").expect("a time");
        let (bars, whole) = bars(attempts.items(), now);
        let found: Vec<_> = bars.iter().map(|bar| (bar.step, bar.ready, bar.claimed, bar.ended)).collect();
        assert_eq!(found, [("a", Some(0.0), Some(1.0), 4.0), ("b", Some(4.0), Some(5.0), 10.0)]);
        assert!((whole - 10.0).abs() < 1e-9);
    }
}
