//! What operators watch of the queues: how much waits, for whom, for how long, and what was given up.
//!
//! Monitoring asks for this for ever, so it must cost little and nothing at all while nothing happens: see
//! [`reveille_wake::Snapshot`]. The number of queues and groups is up to users, and a time series for each would be up to them too:
//! the largest are told by themselves and the others as one sum.

use std::time::Duration;

use reveille_wake::{Aged, READ_WITHIN};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::queues::Queues;

/// Dead letters of a queue that are counted; more are reported as so many. An index entry is read for each.
pub const DEAD_LETTERS_COUNTED: u32 = 10_000;

/// What waits in queues, and for whom.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Figures {
    /// The queues in which most waits, and at last the others as one.
    pub queues: Vec<QueueFigures>,
    /// The consumer groups that lag most, and at last the others as one.
    pub groups: Vec<GroupFigures>,
}

/// A queue, or the sum of those that are not told by themselves.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueFigures {
    /// Its name; `None`: the others.
    pub queue: Option<String>,
    /// How many queues this is: 1 but for the others.
    pub queues: u64,
    /// Partitions.
    pub partitions: u64,
    /// Messages that some group has not ended; where there is no group, all.
    pub depth: u64,
    /// For how long the oldest of them had waited when this was read.
    pub oldest: Option<Duration>,
    /// Dead letters, [`DEAD_LETTERS_COUNTED`] of each queue at most.
    pub dead_letters: u64,
}

/// A consumer group of a queue, or the sum of those that are not told by themselves.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupFigures {
    /// Its queue and its name; `None`: the others.
    pub group: Option<(String, String)>,
    /// Messages it has not ended.
    pub lag: u64,
    /// For how long the oldest of them had waited when this was read.
    pub oldest: Option<Duration>,
}

impl Figures {
    fn of(rows: &[PgRow]) -> reveille_pg::Result<Figures> {
        let mut figures = Figures::default();
        for row in rows {
            let count = |name| row.try_get::<i64, _>(name).map(|count| count.max(0) as u64);
            let seconds: Option<f64> = row.try_get("oldest")?;
            let oldest = seconds.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default());
            let queue: Option<String> = row.try_get("queue")?;
            if row.try_get::<&str, _>("kind")? == "queue" {
                figures.queues.push(QueueFigures {
                    queue,
                    queues: count("sources")?,
                    partitions: count("partitions")?,
                    depth: count("waiting")?,
                    oldest,
                    dead_letters: count("dead_letters")?,
                });
            } else {
                let group = queue.zip(row.try_get("consumer")?);
                figures.groups.push(GroupFigures { group, lag: count("waiting")?, oldest });
            }
        }
        figures.queues.sort_by_key(|figures| (figures.queue.is_none(), std::cmp::Reverse(figures.depth)));
        figures.groups.sort_by_key(|figures| (figures.group.is_none(), std::cmp::Reverse(figures.lag)));
        Ok(figures)
    }
}

impl Queues {
    /// What waits in queues and for groups: `top` of each by themselves, the others summed up. Read again only if something has
    /// happened since; `None` if it could not be read yet.
    ///
    /// # Cancel safety
    /// A reading that has begun goes on.
    pub async fn figures(&self, top: u32) -> Option<Aged<Figures>> {
        let inner = self.inner.clone();
        let activity = inner.wake.activity();
        let read = || async move {
            let query = sqlx::query(&inner.sql.figures).bind(i64::from(top)).bind(i64::from(DEAD_LETTERS_COUNTED));
            Figures::of(&inner.db.observer().ask_within(READ_WITHIN, query).await?)
        };
        self.inner.figures.get(activity, read).await
    }

    /// How many readings of [`figures`](Self::figures) have failed.
    pub fn failed_figures(&self) -> u64 {
        self.inner.figures.failures()
    }
}
