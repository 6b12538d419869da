//! Ticks: the times of a schedule, and which of them run at a given time.
//!
//! A cron expression is about local time, which jumps when daylight saving time begins and ends:
//!
//! - *Listed* times of day (no `*` in the minutes and hours, as in `30 2 * * *` and `0 2,14 * * *`) occur once a day
//!   each. One that local time skips occurs at the end of the gap; several skipped ones occur as one. One that occurs
//!   twice in local time counts the first time.
//! - All other expressions (`*/15 * * * *`, `@hourly`) follow local time: skipped times do not occur, and repeated
//!   times occur twice. So ticks stay an hour apart.
//!
//! Pure. Times have whole seconds; [`civil`] and [`tick`] convert between the two time libraries.

use std::time::Duration;

use croner::parser::{CronParser, Seconds, Year};
use croner::{Cron, CronPattern, Weekday};
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan as _};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

#[cfg(test)]
mod tests;

/// The most ticks that run at a time. A schedule with more is due again at once, after the others.
pub(crate) const TICKS_MAX: usize = 20;
/// The longest cron expression, in bytes: twice as long as a list of every minute.
const EXPRESSION_MAX: usize = 400;
/// For how many seconds a search is restarted a second later if its result is not later: more than any zone's clock was
/// ever set back.
const REPEATED_MAX: u32 = 4 * 3600;

/// What happens to missed ticks: those of times when no server was running.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// Missed ticks do not run.
    Skip,
    /// The latest missed tick runs, instead of all of them, unless a tick that is not missed runs anyway.
    #[default]
    Latest,
    /// Every missed tick runs, in order.
    All,
}

/// The ticks of a schedule.
#[derive(Debug, Clone)]
pub(crate) enum Ticks {
    /// Recurring. `listed`: see the module.
    Cron { cron: Box<Cron>, zone: TimeZone, listed: bool },
    /// A single time.
    Once(OffsetDateTime),
}

/// The ticks that run now, and the next one, if there is one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) run: Vec<OffsetDateTime>,
    pub(crate) next: Option<OffsetDateTime>,
}

/// The time zone with this name.
pub(crate) fn zone(name: &str) -> Result<TimeZone, String> {
    let reason = || format!("{name:?} is not the name of a time zone, like Europe/Berlin");
    // A zone without an IANA name, such as `Local` or an offset, may differ between servers.
    TimeZone::get(name).ok().filter(|zone| zone.iana_name().is_some()).ok_or_else(reason)
}

impl Ticks {
    /// The ticks of a cron expression.
    pub(crate) fn cron(text: &str, zone: TimeZone) -> Result<Ticks, String> {
        if text.len() > EXPRESSION_MAX {
            return Err(format!("must have at most {EXPRESSION_MAX} bytes, got {}", text.len()));
        }
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let cron = parser.parse(text).map_err(|error| format!("invalid cron expression {text:?}: {error}"))?;
        if !has_a_day(&cron.pattern) {
            return Err("names a day that does not exist".to_owned());
        }
        let listed = !cron.pattern.minutes.from_wildcard && !cron.pattern.hours.from_wildcard;
        Ok(Ticks::Cron { cron: Box::new(cron), zone, listed })
    }

    /// The first tick later than `after`. `None`: there is none.
    pub(crate) fn after(&self, after: OffsetDateTime) -> Option<OffsetDateTime> {
        match self {
            Ticks::Once(at) => Some(*at).filter(|at| *at > after),
            Ticks::Cron { cron, zone, listed } => {
                let after = Timestamp::from_second(after.unix_timestamp()).ok()?;
                tick(if *listed { next_listed(cron, zone, after)? } else { next_shown(cron, zone, after)? })
            }
        }
    }

    /// The ticks that run at `now` if the next tick is `from`. A tick is missed if it is at least `grace` late.
    pub(crate) fn plan(&self, missed: Missed, from: OffsetDateTime, now: OffsetDateTime, grace: Duration) -> Plan {
        let since = now - grace;
        let mut next = if missed == Missed::All || from > since { Some(from) } else { self.after(since) };
        let mut run = Vec::new();
        while let Some(tick) = next.filter(|tick| *tick <= now && run.len() < TICKS_MAX) {
            run.push(tick);
            next = self.after(tick);
        }
        if run.is_empty() && missed == Missed::Latest && from <= now {
            run.push(self.latest(from, now));
        }
        Plan { run, next }
    }

    /// The latest tick that is not later than `now`. `from` is a tick that is not later.
    fn latest(&self, from: OffsetDateTime, now: OffsetDateTime) -> OffsetDateTime {
        // Invariant: the tick after `late` is later than `now`.
        let (mut latest, mut late) = (from, now);
        while late - latest >= time::Duration::SECOND {
            let middle = latest + (late - latest) / 2;
            match self.after(middle).filter(|tick| *tick <= now) {
                Some(tick) => latest = tick,
                None => late = middle,
            }
        }
        latest
    }
}

/// Whether the expression names a day that exists, unlike 30 February. The 28 years from 2000 have every combination of
/// first weekday and leap year. So an expression without a day in them never occurs, and any other occurs within 40
/// years, which bounds every search.
fn has_a_day(pattern: &CronPattern) -> bool {
    let first = Date::constant(2000, 1, 1);
    first.series(1.day()).take_while(|day| day.year() < 2028).any(|day| {
        let (month, weekday) = (day.month() as u32, day.weekday().to_sunday_zero_offset() as u32);
        let weekday = Weekday::from_days_from_sunday(weekday);
        pattern.month_match(month).unwrap_or_default()
            && pattern.day_match(day.year().into(), month, day.day() as u32, weekday).unwrap_or_default()
    })
}

/// The next listed time: found in local time without a zone, then converted.
fn next_listed(cron: &Cron, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
    let mut shown = civil(zone, after);
    // Repeats only within an hour that local time skips or repeats.
    loop {
        shown = cron.find_next_occurrence(&shown, false).ok()?;
        let ambiguous = zone.to_ambiguous_timestamp(shown);
        let at = match ambiguous.offset() {
            AmbiguousOffset::Gap { .. } => {
                // The end of the gap: the last change of the offset before the time by the old offset.
                let later = ambiguous.later().ok()?;
                zone.preceding(later.checked_add(SignedDuration::from_secs(1)).ok()?).next()?.timestamp()
            }
            _ => ambiguous.earlier().ok()?,
        };
        if at > after {
            return Some(at);
        }
    }
}

/// The next time of an expression that follows local time.
fn next_shown(cron: &Cron, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
    let mut start = after;
    for _ in 0..REPEATED_MAX {
        let next = cron.find_next_occurrence(&start.to_zoned(zone.clone()), false).ok()?.timestamp();
        if next > after {
            return Some(next);
        }
        start = start.checked_add(SignedDuration::from_secs(1)).ok()?;
    }
    None
}

/// The local time.
fn civil(zone: &TimeZone, at: Timestamp) -> DateTime {
    zone.to_datetime(at)
}

/// `None`: it cannot be stored.
fn tick(at: Timestamp) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp(at.as_second()).ok()
}
