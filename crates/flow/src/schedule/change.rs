//! Making, changing and reading schedules.

use time::OffsetDateTime;

use super::stored::Standing;
use super::ticks::{Ticks, zone};
use super::{Schedule, ScheduleFilter, SchedulePage, Scheduled};
use crate::error::{Error, Result};
use crate::flow::{Flow, Inner};
use crate::task::submit::Submitted;

/// The longest name: with a tick beside it, it is a task's `correlation_id`.
const NAME_MAX: usize = 100;
/// The longest grace: a week.
const GRACE_MAX: u32 = 7 * 86_400;
/// Schedules of one answer, and if nobody says how many.
const LIMIT_MAX: u32 = 1_000;
const LIMIT: u32 = 100;
/// Ticks of one answer.
const UPCOMING_MAX: usize = 100;

impl Flow {
    /// Makes a schedule, or replaces the one of that name. The same again changes nothing. While its times stay the same, so does its next tick; otherwise it begins anew, and what was due
    /// by the old times and has not run does not.
    ///
    /// # Errors
    /// [`Error::NoTemplate`], [`Error::Invalid`] for what cannot be meant, as a context that the template does not allow; else the database's. Nothing was changed then.
    pub async fn put_schedule(&self, schedule: Schedule) -> Result<Scheduled> {
        let (schedule, ticks) = self.inner.meant(schedule).await?;
        self.inner
            .change(&schedule.namespace, &schedule.name, |asked_at, standing| {
                let was_paused = standing.is_some_and(Standing::paused);
                let paused = schedule.paused.unwrap_or(was_paused);
                let wanted = Schedule { paused: Some(paused), ..schedule.clone() };
                let next_at = match standing {
                    Some(standing) if standing.schedule == wanted => return Ok(None),
                    Some(standing) if standing.has_times_of(&wanted) && was_paused => {
                        standing.resumed(&ticks, asked_at)
                    }
                    Some(standing) if standing.has_times_of(&wanted) => standing.next_at,
                    _ => Some(first(&ticks, asked_at, &wanted)?),
                };
                Ok(Some((wanted, next_at.filter(|_| !paused))))
            })
            .await
    }

    /// Lets a schedule rest. What comes while it does is not missed.
    ///
    /// # Errors
    /// [`Error::NoSchedule`]; else the database's.
    pub async fn pause_schedule(&self, namespace: &str, name: &str) -> Result<Scheduled> {
        self.inner
            .change(namespace, name, |_, standing| {
                let standing = standing.ok_or_else(|| unknown(namespace, name))?;
                let wanted = Schedule { paused: Some(true), ..standing.schedule.clone() };
                Ok((!standing.paused()).then_some((wanted, None)))
            })
            .await
    }

    /// Lets a schedule go on: with the next tick from now, or with its one time, if it has not run.
    ///
    /// # Errors
    /// [`Error::NoSchedule`]; else the database's.
    pub async fn resume_schedule(&self, namespace: &str, name: &str) -> Result<Scheduled> {
        self.inner
            .change(namespace, name, |asked_at, standing| {
                let standing = standing.ok_or_else(|| unknown(namespace, name))?;
                if !standing.paused() {
                    return Ok(None);
                }
                let wanted = Schedule { paused: Some(false), ..standing.schedule.clone() };
                let next_at = standing.resumed(&standing.schedule.ticks()?, asked_at);
                Ok(Some((wanted, next_at)))
            })
            .await
    }

    /// Removes a schedule. Its tasks stay.
    ///
    /// # Errors
    /// [`Error::NoSchedule`]; else the database's.
    pub async fn delete_schedule(&self, namespace: &str, name: &str) -> Result<()> {
        let query = || sqlx::query(&self.inner.sql.delete_schedule).bind(namespace).bind(name);
        let rows = self.inner.db.ask("delete a schedule", query).await?;
        rows.first().map(|_| ()).ok_or_else(|| unknown(namespace, name))
    }

    /// Submits a task of a schedule now, beside its ticks, even while it rests.
    ///
    /// # Errors
    /// [`Error::NoSchedule`]; else as [`submit`](Flow::submit).
    pub async fn run_schedule(&self, namespace: &str, name: &str) -> Result<Submitted> {
        let (_, standing) = self.inner.standing(namespace, name).await?;
        let standing = standing.ok_or_else(|| unknown(namespace, name))?;
        let submission = standing.schedule.submission(None);
        let kept = self.inner.allowed(&submission).await?;
        self.inner.make(kept, submission, None).await
    }

    /// A schedule, with as many of its next ticks.
    ///
    /// # Errors
    /// [`Error::NoSchedule`]; else the database's.
    pub async fn schedule(&self, namespace: &str, name: &str, upcoming: usize) -> Result<Scheduled> {
        let (_, standing) = self.inner.standing(namespace, name).await?;
        let standing = standing.ok_or_else(|| unknown(namespace, name))?;
        let next: Vec<OffsetDateTime> = match standing.schedule.ticks() {
            Ok(ticks) => std::iter::successors(standing.next_at, |tick| ticks.after(*tick))
                .take(upcoming.min(UPCOMING_MAX))
                .collect(),
            // By the zones that another server knows.
            Err(_) => Vec::new(),
        };
        Ok(Scheduled { upcoming: next, ..standing.into() })
    }

    /// Schedules, in the order in which they were made. A page looks at ten thousand schedules at most, and has no more than 16 MiB of contexts, and one schedule at least.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a limit that is not between 1 and 1 000; else the database's.
    pub async fn schedules(&self, filter: &ScheduleFilter) -> Result<SchedulePage> {
        let limit = filter.limit.unwrap_or(LIMIT);
        if !(1..=LIMIT_MAX).contains(&limit) {
            return Err(Error::invalid("limit", format!("it is {limit}; it must be between 1 and {LIMIT_MAX}")));
        }
        let (_, found, next) = self.inner.find_schedules(filter, None, limit).await?;
        Ok(SchedulePage { schedules: found.into_iter().map(Scheduled::from).collect(), next })
    }
}

impl Inner {
    /// A schedule as it is kept, if it can be meant.
    async fn meant(&self, mut schedule: Schedule) -> Result<(Schedule, Ticks)> {
        let length = schedule.name.chars().count();
        if !(1..=NAME_MAX).contains(&length) {
            let reason = format!("it has {length} characters; it must have between 1 and {NAME_MAX}");
            return Err(Error::invalid("name", reason));
        }
        if let Some(odd) = schedule.name.chars().find(|character| character.is_control()) {
            return Err(Error::invalid("name", format!("it contains the control character {odd:?}")));
        }
        if !(1..=GRACE_MAX).contains(&schedule.grace_seconds) {
            let reason = format!("it is {}; it must be between 1 and {GRACE_MAX}", schedule.grace_seconds);
            return Err(Error::invalid("grace_seconds", reason));
        }
        if schedule.cron.is_some() {
            let known = zone(schedule.time_zone.as_deref().unwrap_or("UTC"));
            let known = known.map_err(|reason| Error::invalid("time_zone", reason))?;
            schedule.time_zone = known.iana_name().map(str::to_owned);
        } else if schedule.time_zone.is_some() {
            return Err(Error::invalid("time_zone", "a single time has its own; it goes with cron"));
        }
        // As the database keeps it.
        schedule.at = schedule.at.and_then(|at| at.replace_nanosecond(at.microsecond() * 1_000).ok());
        let ticks = schedule.ticks()?;
        self.allowed(&schedule.submission(None)).await?;
        Ok((schedule, ticks))
    }
}

/// The first tick of a schedule whose times are new.
fn first(ticks: &Ticks, asked_at: OffsetDateTime, schedule: &Schedule) -> Result<OffsetDateTime> {
    match ticks {
        Ticks::Once(at) if asked_at - *at < schedule.grace() => Ok(*at),
        Ticks::Once(_) => Err(Error::invalid("at", "it passed longer than grace_seconds ago, by the database's clock")),
        Ticks::Cron { .. } => ticks
            .after(asked_at)
            .ok_or_else(|| Error::invalid("cron", "it never comes: the clock jumps over it whenever it would")),
    }
}

pub(super) fn unknown(namespace: &str, name: &str) -> Error {
    Error::NoSchedule { namespace: namespace.to_owned(), name: name.to_owned() }
}
