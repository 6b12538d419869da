//! Durations: `500ms`, `30s`, `5m`, `1h`, and `0` for "no limit".
//!
//! A number without a unit is rejected: some tools read `30` as seconds, others as milliseconds, and a wrong guess is a
//! timeout that is a thousand times too long.

use std::time::Duration;

/// The longest duration a setting may have: PostgreSQL keeps its timeouts in 31 bits of milliseconds (about 24 days).
const LONGEST: Duration = Duration::from_millis(i32::MAX as u64);

/// Parses a duration; the error says what is allowed.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let millis_per_unit = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("must be a number and a unit, such as 500ms, 30s, 5m or 1h, or 0 for none".into()),
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(millis_per_unit))
        .map(Duration::from_millis)
        .filter(|duration| *duration <= LONGEST)
        .ok_or_else(|| "must be between 0 and 596h".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number with a unit is accepted; anything ambiguous or out of range is rejected.
    #[test]
    fn durations_need_a_unit_and_stay_in_range() {
        let accepted =
            [("0", 0), ("0s", 0), ("500ms", 500), (" 30s ", 30_000), ("5m", 300_000), ("596h", 2_145_600_000)];
        for (text, millis) in accepted {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in
            ["", "30", "s", "-1s", "1.5s", "1 s", "1d", "597h", "99999999999999999999s", "18446744073709551615h"]
        {
            assert!(parse(text).is_err(), "{text} was accepted");
        }
    }
}
