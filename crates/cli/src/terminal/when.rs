//! Times and durations for people.

use std::time::{Duration, SystemTime};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// A timestamp of the server with its distance from now: `2026-11-19T16:00:00Z (3m ago)`.
pub fn when(timestamp: &str) -> String {
    match distance(timestamp, SystemTime::now()) {
        Some(distance) => format!("{timestamp} ({distance})"),
        None => timestamp.to_owned(),
    }
}

/// The distance of a timestamp from now: `3m ago`, `in 2h`.
pub fn ago(timestamp: &str) -> String {
    distance(timestamp, SystemTime::now()).unwrap_or_else(|| timestamp.to_owned())
}

fn distance(timestamp: &str, now: SystemTime) -> Option<String> {
    let at = SystemTime::from(reveille_web::parse_timestamp(timestamp)?);
    Some(match now.duration_since(at) {
        Ok(past) if past < Duration::from_secs(1) => "now".to_owned(),
        Ok(past) => format!("{} ago", duration(past)),
        Err(future) => format!("in {}", duration(future.duration())),
    })
}

/// A duration in its largest unit, and the next while that matters: `250ms`, `1.5s`, `42s`, `3m 20s`, `5h 10m`, `12d`.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let two = |large: u64, unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit} {small}{small_unit}"),
    };
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        1..10 => format!("{:.1}s", duration.as_secs_f64()),
        10..MINUTE => format!("{seconds}s"),
        MINUTE..HOUR => two(seconds / MINUTE, "m", seconds % MINUTE, "s"),
        HOUR..DAY => two(seconds / HOUR, "h", seconds % HOUR / MINUTE, "m"),
        _ => two(seconds / DAY, "d", if seconds < 10 * DAY { seconds % DAY / HOUR } else { 0 }, "h"),
    }
}

/// A time in an argument: RFC 3339, a date, or how long ago (`15m`, `2h`, `7d`). The result is RFC 3339.
///
/// # Errors
/// The text for the error message of the command line.
pub fn parse_when(text: &str) -> Result<String, String> {
    let text = text.trim();
    if let Some(ago) = parse_ago(text) {
        let at = SystemTime::now().checked_sub(ago).ok_or("must not be that long ago")?;
        return Ok(reveille_web::Timestamp(at.into()).to_string());
    }
    let at = reveille_web::parse_timestamp(text);
    let at = at.ok_or("must be a time such as 2026-11-19T16:00:00Z, a date, or how long ago, such as 15m, 2h or 7d")?;
    Ok(reveille_web::Timestamp(at).to_string())
}

fn parse_ago(text: &str) -> Option<Duration> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_lowercase());
    let unit = match &text[number.len()..] {
        "s" => 1,
        "m" => MINUTE,
        "h" => HOUR,
        "d" => DAY,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Durations from milliseconds to years.
    #[test]
    fn durations_have_the_units_that_matter() {
        let table = [
            (0, "0ms"),
            (250, "250ms"),
            (1_500, "1.5s"),
            (42_900, "42s"),
            (60_000, "1m"),
            (200_000, "3m 20s"),
            (18_600_000, "5h 10m"),
            (90_000_000, "1d 1h"),
            (1_040_000_000, "12d"),
        ];
        for (millis, expected) in table {
            assert_eq!(duration(Duration::from_millis(millis)), expected);
        }
    }

    /// The past, the present and the future; a text that is no time stays as it is.
    #[test]
    fn distances_are_before_or_after_now() {
        let now = SystemTime::from(reveille_web::parse_timestamp("2026-11-19T16:00:00Z").expect("a time"));
        let table = [
            ("2026-11-19T15:57:00.000000Z", Some("3m ago")),
            ("2026-11-19T15:59:59.9Z", Some("now")),
            ("2026-11-19T18:00:00Z", Some("in 2h")),
            ("soon", None),
        ];
        for (timestamp, expected) in table {
            assert_eq!(distance(timestamp, now).as_deref(), expected, "{timestamp}");
        }
        assert_eq!(when("soon"), "soon");
    }

    /// Times, dates and how long ago are accepted; the error for anything else has examples.
    #[test]
    fn times_in_arguments_are_absolute_or_relative() {
        assert_eq!(parse_when("2026-11-19T16:00:00+01:00").as_deref(), Ok("2026-11-19T15:00:00.000000Z"));
        assert_eq!(parse_when(" 2026-11-19 ").as_deref(), Ok("2026-11-19T00:00:00.000000Z"));
        for text in ["0s", "15m", "2h", "7d"] {
            assert!(parse_when(text).is_ok_and(|at| at.ends_with('Z')), "{text}");
        }
        for text in ["", "yesterday", "15", "m", "-1h", "1w", "99999999999999999999h"] {
            assert!(parse_when(text).is_err_and(|error| error.contains("15m")), "{text}");
        }
    }
}
