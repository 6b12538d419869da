//! Creating, changing and reading schedules.

use reveille_pg::audit::Entry;
use time::OffsetDateTime;

use super::stored::StoredSchedule;
use super::ticks::{Ticks, zone};
use super::{Schedule, ScheduleFilter, SchedulePage, Scheduled};
use crate::error::{Error, Result};
use crate::flow::{Flow, Inner};
use crate::task::submit::Submitted;

/// The longest name. Together with a tick it is the `correlation_id` of a task.
const NAME_MAX: usize = 100;
/// The longest grace period: a week.
const GRACE_MAX: u32 = 7 * 86_400;
/// The most schedules of a page, and the default.
const LIMIT_MAX: u32 = 1_000;
const LIMIT: u32 = 100;
/// The most ticks of an answer.
const UPCOMING_MAX: usize = 100;

impl Flow {
    /// Creates a schedule, or replaces the one with the same name. Putting the same again changes nothing. If its times
    /// stay the same, so does its next tick. Otherwise the schedule starts anew, and ticks of the old times that have
    /// not run are dropped.
    ///
    /// # Errors
    /// [`Error::NoTemplate`], [`Error::Invalid`] for an invalid parameter or a context that the template does not
    /// allow; otherwise a database error. Nothing was changed.
    pub async fn put_schedule(&self, schedule: Schedule) -> Result<Scheduled> {
        let (schedule, ticks) = self.inner.checked(schedule).await?;
        self.inner
            .change("schedule.put", &schedule.namespace, &schedule.name, |asked_at, stored| {
                let was_paused = stored.is_some_and(StoredSchedule::paused);
                let paused = schedule.paused.unwrap_or(was_paused);
                let wanted = Schedule { paused: Some(paused), ..schedule.clone() };
                let next_at = match stored {
                    Some(stored) if stored.schedule == wanted => return Ok(None),
                    Some(stored) if stored.has_times_of(&wanted) && was_paused => stored.resumed(&ticks, asked_at),
                    Some(stored) if stored.has_times_of(&wanted) => stored.next_at,
                    _ => Some(first(&ticks, asked_at, &wanted)?),
                };
                Ok(Some((wanted, next_at.filter(|_| !paused))))
            })
            .await
    }

    /// Pauses a schedule. Ticks during the pause are skipped, and do not count as missed.
    ///
    /// # Errors
    /// [`Error::NoSchedule`]; otherwise a database error.
    pub async fn pause_schedule(&self, namespace: &str, name: &str) -> Result<Scheduled> {
        self.inner
            .change("schedule.pause", namespace, name, |_, stored| {
                let stored = stored.ok_or_else(|| unknown(namespace, name))?;
                let wanted = Schedule { paused: Some(true), ..stored.schedule.clone() };
                Ok((!stored.paused()).then_some((wanted, None)))
            })
            .await
    }

    /// Resumes a schedule: with the next tick from now, or with its single time if that has not run.
    ///
    /// # Errors
    /// [`Error::NoSchedule`]; otherwise a database error.
    pub async fn resume_schedule(&self, namespace: &str, name: &str) -> Result<Scheduled> {
        self.inner
            .change("schedule.resume", namespace, name, |asked_at, stored| {
                let stored = stored.ok_or_else(|| unknown(namespace, name))?;
                if !stored.paused() {
                    return Ok(None);
                }
                let wanted = Schedule { paused: Some(false), ..stored.schedule.clone() };
                let next_at = stored.resumed(&stored.schedule.ticks()?, asked_at);
                Ok(Some((wanted, next_at)))
            })
            .await
    }

    /// Deletes a schedule. Its tasks are kept.
    ///
    /// # Errors
    /// [`Error::NoSchedule`]; otherwise a database error.
    pub async fn delete_schedule(&self, namespace: &str, name: &str) -> Result<()> {
        let query = || sqlx::query(&self.inner.sql.delete_schedule).bind(namespace).bind(name);
        let entry = Entry::new("schedule.delete", format!("{namespace}/{name}"));
        let rows = self.inner.db.act("delete a schedule", entry, query, |rows| !rows.is_empty()).await?;
        rows.first().map(|_| ()).ok_or_else(|| unknown(namespace, name))
    }

    /// Submits a task of a schedule now, in addition to its ticks, even if it is paused.
    ///
    /// # Errors
    /// [`Error::NoSchedule`]; otherwise those of [`submit`](Flow::submit).
    pub async fn run_schedule(&self, namespace: &str, name: &str) -> Result<Submitted> {
        let (_, stored) = self.inner.find_schedule(namespace, name).await?;
        let stored = stored.ok_or_else(|| unknown(namespace, name))?;
        let submission = stored.schedule.submission(None);
        let cached = self.inner.allowed(&submission).await?;
        let entry = Entry::new("schedule.run", format!("{namespace}/{name}"));
        self.inner.make(cached, submission, None, entry).await
    }

    /// A schedule with up to `upcoming` next ticks.
    ///
    /// # Errors
    /// [`Error::NoSchedule`]; otherwise a database error.
    pub async fn schedule(&self, namespace: &str, name: &str, upcoming: usize) -> Result<Scheduled> {
        let (_, stored) = self.inner.find_schedule(namespace, name).await?;
        let stored = stored.ok_or_else(|| unknown(namespace, name))?;
        let next: Vec<OffsetDateTime> = match stored.schedule.ticks() {
            Ok(ticks) => std::iter::successors(stored.next_at, |tick| ticks.after(*tick))
                .take(upcoming.min(UPCOMING_MAX))
                .collect(),
            // Another server, with newer time zones, accepted it.
            Err(_) => Vec::new(),
        };
        Ok(Scheduled { upcoming: next, ..stored.into() })
    }

    /// A page of schedules, in the order of their creation. A page scans at most ten thousand schedules and has at most
    /// 16 MiB of contexts, and at least one schedule.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a limit not between 1 and 1 000; otherwise a database error.
    pub async fn schedules(&self, filter: &ScheduleFilter) -> Result<SchedulePage> {
        let limit = filter.limit.unwrap_or(LIMIT);
        if !(1..=LIMIT_MAX).contains(&limit) {
            return Err(Error::invalid("limit", format!("must be between 1 and {LIMIT_MAX}, got {limit}")));
        }
        let (_, found, next) = self.inner.find_schedules(filter, None, limit).await?;
        Ok(SchedulePage { schedules: found.into_iter().map(Scheduled::from).collect(), next })
    }
}

impl Inner {
    /// Checks a schedule and normalizes it for storage.
    async fn checked(&self, mut schedule: Schedule) -> Result<(Schedule, Ticks)> {
        let length = schedule.name.chars().count();
        if !(1..=NAME_MAX).contains(&length) {
            let reason = format!("must have between 1 and {NAME_MAX} characters, got {length}");
            return Err(Error::invalid("name", reason));
        }
        if let Some(odd) = schedule.name.chars().find(|character| character.is_control()) {
            return Err(Error::invalid("name", format!("must not contain control characters, got {odd:?}")));
        }
        if !(1..=GRACE_MAX).contains(&schedule.grace_seconds) {
            let reason = format!("must be between 1 and {GRACE_MAX}, got {}", schedule.grace_seconds);
            return Err(Error::invalid("grace_seconds", reason));
        }
        if schedule.cron.is_some() {
            let known = zone(schedule.time_zone.as_deref().unwrap_or("UTC"));
            let known = known.map_err(|reason| Error::invalid("time_zone", reason))?;
            schedule.time_zone = known.iana_name().map(str::to_owned);
        } else if schedule.time_zone.is_some() {
            return Err(Error::invalid("time_zone", "allowed only with `cron`: `at` has its own offset"));
        }
        // The database stores microseconds.
        schedule.at = schedule.at.and_then(|at| at.replace_nanosecond(at.microsecond() * 1_000).ok());
        let ticks = schedule.ticks()?;
        self.allowed(&schedule.submission(None)).await?;
        Ok((schedule, ticks))
    }
}

/// The first tick of a schedule with new times.
fn first(ticks: &Ticks, asked_at: OffsetDateTime, schedule: &Schedule) -> Result<OffsetDateTime> {
    match ticks {
        Ticks::Once(at) if asked_at - *at < schedule.grace() => Ok(*at),
        Ticks::Once(_) => Err(Error::invalid("at", "passed more than `grace_seconds` ago, by the database's clock")),
        Ticks::Cron { .. } => {
            ticks.after(asked_at).ok_or_else(|| Error::invalid("cron", "never occurs: the clock skips it every time"))
        }
    }
}

pub(super) fn unknown(namespace: &str, name: &str) -> Error {
    Error::NoSchedule { namespace: namespace.to_owned(), name: name.to_owned() }
}
