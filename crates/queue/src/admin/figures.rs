//! Statistics for monitoring: backlogs, their ages, and dead letters.
//!
//! Monitoring reads them at intervals forever, so they are cheap, and cost nothing while nothing happens: see
//! [`reveille_wake::Snapshot`]. The number of queues and groups is up to users, and so would be the number of time
//! series. So the largest have entries of their own, and the others one entry together.

use std::time::Duration;

use reveille_wake::{Aged, READ_WITHIN};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::queues::Queues;
use crate::storage::statements::unknown_word;

/// Dead letters of a queue that are counted; the count stops there. An index entry is read for each.
pub const DEAD_LETTERS_COUNTED: u32 = 10_000;

/// The backlogs of queues and consumer groups.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Figures {
    /// The queues with the largest backlogs, and the others as one entry.
    pub queues: Vec<QueueFigures>,
    /// The consumer groups with the largest lags, and the others as one entry.
    pub groups: Vec<GroupFigures>,
}

/// A queue, or the sum of the others.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueFigures {
    /// Its name; `None`: the others.
    pub queue: Option<String>,
    /// The number of queues: 1, except for the others.
    pub queues: u64,
    /// The number of partitions.
    pub partitions: u64,
    /// Messages that a group has not consumed; without groups, all.
    pub depth: u64,
    /// The age of the oldest of them when this was read.
    pub oldest: Option<Duration>,
    /// Dead letters, [`DEAD_LETTERS_COUNTED`] of each queue at most.
    pub dead_letters: u64,
}

/// A consumer group of a queue, or the sum of the others.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupFigures {
    /// Its queue and its name; `None`: the others.
    pub group: Option<(String, String)>,
    /// Messages that it has not consumed.
    pub lag: u64,
    /// The age of the oldest of them when this was read.
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
            match row.try_get("kind")? {
                "queue" => figures.queues.push(QueueFigures {
                    queue,
                    queues: count("sources")?,
                    partitions: count("partitions")?,
                    depth: count("waiting")?,
                    oldest,
                    dead_letters: count("dead_letters")?,
                }),
                "group" => {
                    let group = queue.zip(row.try_get("consumer")?);
                    figures.groups.push(GroupFigures { group, lag: count("waiting")?, oldest });
                }
                unknown => return Err(unknown_word("kind of statistics", unknown).into()),
            }
        }
        figures.queues.sort_by_key(|figures| (figures.queue.is_none(), std::cmp::Reverse(figures.depth)));
        figures.groups.sort_by_key(|figures| (figures.group.is_none(), std::cmp::Reverse(figures.lag)));
        Ok(figures)
    }
}

impl Queues {
    /// The backlogs: `top` queues and groups with entries of their own, the others summed up. Read again only if
    /// something has happened since; `None` if it could not be read yet.
    ///
    /// # Cancel safety
    /// A query that has begun continues.
    pub async fn figures(&self, top: u32) -> Option<Aged<Figures>> {
        let inner = self.inner.clone();
        let activity = inner.wake.activity();
        let read = || async move {
            let query = sqlx::query(&inner.sql.figures).bind(i64::from(top)).bind(i64::from(DEAD_LETTERS_COUNTED));
            Figures::of(&inner.db.observer().ask_within(READ_WITHIN, query).await?)
        };
        self.inner.figures.get(activity, read).await
    }

    /// The number of failed queries of [`figures`](Self::figures).
    pub fn failed_figures(&self) -> u64 {
        self.inner.figures.failures()
    }
}
