//! Timestamps on the wire: RFC 3339 in UTC, with microseconds.

use std::fmt;

use serde::{Serialize, Serializer};
use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{Date, OffsetDateTime, PrimitiveDateTime, UtcOffset};

/// A timestamp in its wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamp(pub OffsetDateTime);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.0.to_offset(UtcOffset::UTC);
        let (date, time) = (at.date(), at.time());
        write!(f, "{:04}-{:02}-{:02}", date.year(), u8::from(date.month()), date.day())?;
        write!(f, "T{:02}:{:02}:{:02}.{:06}Z", time.hour(), time.minute(), time.second(), time.microsecond())
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Formats without an offset, which mean UTC.
const LOCAL: &[&[BorrowedFormatItem<'_>]] = &[
    format_description!("[year]-[month]-[day][first [T][ ]][hour]:[minute]:[second][optional [.[subsecond]]]"),
    format_description!("[year]-[month]-[day][first [T][ ]][hour]:[minute]"),
];
const DAY: &[BorrowedFormatItem<'_>] = format_description!("[year]-[month]-[day]");

/// Parses RFC 3339, the same without an offset (UTC), or a date. `None` if the text is none of these.
pub fn parse(text: &str) -> Option<OffsetDateTime> {
    let text = text.trim();
    if let Ok(time) = OffsetDateTime::parse(text, &Rfc3339) {
        return Some(time);
    }
    // An unescaped plus in a URL is decoded as a space.
    if let Some((time, offset)) = text.rsplit_once(' ')
        && let Ok(time) = OffsetDateTime::parse(&format!("{time}+{offset}"), &Rfc3339)
    {
        return Some(time);
    }
    LOCAL
        .iter()
        .find_map(|format| PrimitiveDateTime::parse(text, format).ok())
        .or_else(|| Date::parse(text, DAY).ok().map(Date::midnight))
        .map(PrimitiveDateTime::assume_utc)
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    /// A timestamp is written in UTC, always with the same number of characters.
    #[test]
    fn timestamps_are_written_in_utc() {
        let shown = |at: OffsetDateTime| Timestamp(at).to_string();
        assert_eq!(shown(datetime!(2026-01-02 03:04:05.678901 UTC)), "2026-01-02T03:04:05.678901Z");
        assert_eq!(shown(datetime!(2026-01-02 03:04:05 +2)), "2026-01-02T01:04:05.000000Z");
    }

    /// The formats that standard libraries write are accepted; other texts are not.
    #[test]
    fn timestamps_are_parsed_in_common_formats() {
        let noon = datetime!(2026-01-02 12:00:00 UTC);
        for text in [
            "2026-01-02T12:00:00Z",
            "2026-01-02T12:00:00.000Z",
            "2026-01-02T12:00:00.000000+00:00",
            "2026-01-02T13:00:00+01:00",
            "2026-01-02T13:00:00 01:00",
            "2026-01-02T12:00:00",
            "2026-01-02 12:00:00.000",
            "2026-01-02T12:00",
        ] {
            assert_eq!(parse(text), Some(noon), "{text}");
        }
        assert_eq!(parse("2026-01-02"), Some(datetime!(2026-01-02 00:00 UTC)));
        assert_eq!(parse(&Timestamp(noon).to_string()), Some(noon));
        for text in ["", "now", "yesterday", "2026-13-01", "1767355200"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
