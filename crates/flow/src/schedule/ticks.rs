//! Ticks: when a schedule comes, and which of its ticks run when somebody looks.
//!
//! A cron expression speaks of a clock on a wall, and twice a year that clock jumps. What happens then:
//!
//! - Times of day that are *listed* (no `*` in the fields of minutes and hours, as in `30 2 * * *` and `0 2,14 * * *`) come once a day each, whatever the clock does. One that the clock jumps
//!   over comes when it lands; if it jumps over several of a schedule, they come as one. One that the clock shows twice comes the first time.
//! - Everything else (`*/15 * * * *`, `@hourly`) goes with the clock: what it jumps over does not come, and what it shows twice comes twice. So an hour is an hour.
//!
//! Everything here is a function of its arguments. Times are whole seconds inside, and the only place where two libraries' times meet is [`civil`] and [`moment`].

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

/// Ticks that run at one look. Whoever has missed more is looked at again at once, after others that are due.
pub(crate) const TICKS_MAX: usize = 20;
/// The longest cron expression. A list of every minute has half of this.
const EXPRESSION_MAX: usize = 400;
/// Seconds that a search is begun again later, if it found what was not later: more than any clock has been put back by.
const REPEATED_MAX: u32 = 4 * 3600;

/// What becomes of ticks that nobody was there for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// They do not run.
    Skip,
    /// The latest runs, for all of them, unless one that is not missed runs anyway.
    #[default]
    Latest,
    /// Each runs, in order.
    All,
}

/// When a schedule comes.
#[derive(Debug, Clone)]
pub(crate) enum Ticks {
    /// Again and again. `listed`: its times of day are.
    Cron { cron: Box<Cron>, zone: TimeZone, listed: bool },
    /// Once.
    Once(OffsetDateTime),
}

/// Which ticks run now, and which is the next. `None`: there is none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) run: Vec<OffsetDateTime>,
    pub(crate) next: Option<OffsetDateTime>,
}

/// The zone of that name.
pub(crate) fn zone(name: &str) -> Result<TimeZone, String> {
    let reason = || format!("{name:?} is not the name of a time zone, like Europe/Berlin");
    // What has no name of its own, like `Local` or an offset, is another on another server.
    TimeZone::get(name).ok().filter(|zone| zone.iana_name().is_some()).ok_or_else(reason)
}

impl Ticks {
    /// Those of a cron expression.
    pub(crate) fn cron(text: &str, zone: TimeZone) -> Result<Ticks, String> {
        if text.len() > EXPRESSION_MAX {
            return Err(format!("it has {} characters; the limit is {EXPRESSION_MAX}", text.len()));
        }
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let cron = parser.parse(text).map_err(|error| format!("{text:?} is not an expression: {error}"))?;
        if !has_a_day(&cron.pattern) {
            return Err("there is no such day".to_owned());
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
                moment(if *listed { next_listed(cron, zone, after)? } else { next_shown(cron, zone, after)? })
            }
        }
    }

    /// What to do at `now` about a schedule whose next tick is `from`. A tick is missed if it is as late as `grace`.
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

    /// The latest tick that is not later than `now`. `from` is one.
    fn latest(&self, from: OffsetDateTime, now: OffsetDateTime) -> OffsetDateTime {
        // The next tick of `late` is later than `now`.
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

/// Whether the expression names a day that exists, unlike 30 February. A year begins on one of seven weekdays and is a leap year or not, and these 28 years
/// have every such kind: so what has no day in them never has one, and what has one comes within 40 years, which bounds every search.
fn has_a_day(pattern: &CronPattern) -> bool {
    let first = Date::constant(2000, 1, 1);
    first.series(1.day()).take_while(|day| day.year() < 2028).any(|day| {
        let (month, weekday) = (day.month() as u32, day.weekday().to_sunday_zero_offset() as u32);
        let weekday = Weekday::from_days_from_sunday(weekday);
        pattern.month_match(month).unwrap_or_default()
            && pattern.day_match(day.year().into(), month, day.day() as u32, weekday).unwrap_or_default()
    })
}

/// Of times of day that are listed: they are found in a calendar without a zone, and each is one moment.
fn next_listed(cron: &Cron, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
    let mut shown = civil(zone, after);
    // What the clock shows twice, and what it jumps over: as many as there are in the hour.
    loop {
        shown = cron.find_next_occurrence(&shown, false).ok()?;
        let ambiguous = zone.to_ambiguous_timestamp(shown);
        let at = match ambiguous.offset() {
            AmbiguousOffset::Gap { .. } => {
                // As if the clock had not jumped yet: that is after the jump, or the moment of it.
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

/// Of what goes with the clock.
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

/// What a clock in the zone shows.
fn civil(zone: &TimeZone, at: Timestamp) -> DateTime {
    zone.to_datetime(at)
}

/// `None`: it is beyond what can be stored.
fn moment(at: Timestamp) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp(at.as_second()).ok()
}
