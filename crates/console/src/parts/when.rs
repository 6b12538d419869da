//! Times: absolute in UTC, and relative to now. The script keeps the relative part current.

use std::time::Duration;

use maud::{Markup, html};
use time::OffsetDateTime;

use crate::Json;

/// A timestamp of the API; nothing if there is none.
pub fn when(at: &Json, now: OffsetDateTime) -> Markup {
    let text = at.text();
    match reveille_web::parse_timestamp(text) {
        Some(time) => html! {
            time datetime=(text) title=(text) { span.abs { (absolute(time)) } " " span.rel data-relative=(text) { (relative(time, now)) } }
        },
        None => html! { (text) },
    }
}

/// `2026-11-19 20:20:03`, in UTC.
fn absolute(at: OffsetDateTime) -> String {
    let at = reveille_web::Timestamp(at).to_string();
    at.get(..19).unwrap_or(&at).replace('T', " ")
}

/// `3 min ago`, `in 2 h`.
pub fn relative(at: OffsetDateTime, now: OffsetDateTime) -> String {
    let seconds = (now - at).as_seconds_f64();
    match seconds {
        _ if seconds.abs() < 1.0 => "now".to_owned(),
        _ if seconds > 0.0 => format!("{} ago", duration(Duration::from_secs_f64(seconds))),
        _ => format!("in {}", duration(Duration::from_secs_f64(-seconds))),
    }
}

/// `1.5 ms`, `12 s`, `3 min`, `5 h`, `2 d`.
pub fn duration(of: Duration) -> String {
    let seconds = of.as_secs_f64();
    match seconds {
        _ if seconds < 1e-6 => "0 s".to_owned(),
        _ if seconds < 0.001 => format!("{:.0} µs", seconds * 1e6),
        _ if seconds < 0.01 => format!("{:.1} ms", seconds * 1e3),
        _ if seconds < 1.0 => format!("{:.0} ms", seconds * 1e3),
        _ if seconds < 10.0 => format!("{seconds:.1} s"),
        _ if seconds < 120.0 => format!("{seconds:.0} s"),
        _ if seconds < 7_200.0 => format!("{:.0} min", seconds / 60.0),
        _ if seconds < 172_800.0 => format!("{:.0} h", seconds / 3_600.0),
        _ => format!("{:.0} d", seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two digits are enough, in the unit that a person would use.
    #[test]
    fn durations_are_short() {
        for (seconds, text) in [
            (0.0, "0 s"),
            (0.000_05, "50 µs"),
            (0.0015, "1.5 ms"),
            (0.25, "250 ms"),
            (3.04, "3.0 s"),
            (61.0, "61 s"),
            (600.0, "10 min"),
            (10_000.0, "3 h"),
            (864_000.0, "10 d"),
        ] {
            assert_eq!(duration(Duration::from_secs_f64(seconds)), text);
        }
    }
}
