//! Keeping house: removing messages that have outlived what their queue wants.
//!
//! Messages go from the front of a partition, whole segments at a time: a segment goes when all of it may. So nothing is ever searched for: whether a partition has something to remove
//! its first segment says. Each step is short and locks few partitions, and of several servers one does it at a time; the others find nothing to do.
//!
//! | option | what goes | how |
//! |---|---|---|
//! | `retentionEnabled`, `retentionSeconds` | what is older, consumed or not | removed |
//! | `retentionEnabled`, `completedRetentionSeconds` | what is older and every consumer group has ended | removed |
//! | `consumedRetentionSeconds`, unless `retentionEnabled` | what is older and every consumer group has ended; a day by default | removed |
//! | `ttl`, if it was given | what is older, consumed or not | removed |
//! | `maxWaitTimeSeconds` | what has waited longer for a group | the group passes over it; where no group reads it is removed |

use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::{PgTransaction, Row};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::admin::delete::{PARTITIONS, SEGMENTS};
use crate::error::Result;
use crate::queues::Queues;
use crate::storage::partition_ref::released;
use crate::storage::schedule::Schedule;

/// Cursors that are moved in one step.
const CURSORS: i64 = 200;

/// After so many partitions that are held for longer than one waits no other is waited for, until house is kept again.
const IN_VAIN_MAX: usize = 20;

/// How often house is kept at most. While nothing happens in this schema it is kept when the next message has to go, and not before.
#[derive(Debug, Clone)]
pub struct RetentionOptions {
    /// The shortest time between two removals of messages that were kept long enough. Default 300 s.
    pub retention_interval: Duration,
    /// The shortest time between two removals of messages that have waited too long. Default 60 s.
    pub eviction_interval: Duration,
}

impl Default for RetentionOptions {
    fn default() -> Self {
        RetentionOptions { retention_interval: Duration::from_secs(300), eviction_interval: Duration::from_secs(60) }
    }
}

/// No due time is further away than this, far from where arithmetic on times ends: it is asked for again then.
const LONGEST: Duration = Duration::from_secs(30 * 86_400);

/// House is kept as long as this is not dropped.
#[derive(Debug)]
pub struct Housekeeping(JoinHandle<()>);

impl Drop for Housekeeping {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// By which of its options a queue is tidied up.
#[derive(Debug, Clone, Copy)]
enum Ages {
    Kept,
    Waiting,
}

/// How long to wait for what is due in so many milliseconds: a millisecond more, because then it must be in the past.
fn until(ms: f64) -> Duration {
    if ms <= 0.0 { Duration::ZERO } else { Duration::from_secs_f64(((ms + 1.0) / 1_000.0).min(LONGEST.as_secs_f64())) }
}

/// A partition, and up to before which offset its messages go.
type Task = (i64, i64);

impl Queues {
    /// Keeps house from now on, until what it returns is dropped. Every server does: of all that share a schema one does it at a time.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start_housekeeping(&self, options: &RetentionOptions) -> Housekeeping {
        let queues = self.clone();
        let now = Instant::now();
        let mut retention = Schedule::new(options.retention_interval, now);
        let mut eviction = Schedule::new(options.eviction_interval, now);
        Housekeeping(tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = sleep_until(retention.next()) => queues.attend(Ages::Kept, &mut retention).await,
                    () = sleep_until(eviction.next()) => queues.attend(Ages::Waiting, &mut eviction).await,
                }
            }
        }))
    }

    /// Keeps house if something has happened since the last time, or if something has become due. While nothing happens this sends
    /// no statement.
    async fn attend(&self, ages: Ages, schedule: &mut Schedule) {
        if !schedule.is_wanted(self.inner.wake.activity(), Instant::now()) {
            return schedule.skip(Instant::now());
        }
        match self.keep_house_once(ages).await {
            Ok((messages, activity, due)) => {
                if messages > 0 {
                    tracing::debug!(messages, "kept house");
                }
                schedule.end(activity, due, Instant::now());
            }
            Err(error) => {
                tracing::warn!(error = reveille_pg::causes(&error), "house could not be kept; it is tried again");
                schedule.fail(Instant::now());
            }
        }
    }

    /// How many messages went, when the next one has to, and the activity that this answer takes into account.
    async fn keep_house_once(&self, ages: Ages) -> Result<(u64, u64, Option<Instant>)> {
        let (activity, due) = self.next_due(ages).await?;
        if due.is_none_or(|due| due > Instant::now()) {
            return Ok((0, activity, due));
        }
        let messages = match ages {
            Ages::Kept => self.retain().await?,
            Ages::Waiting => self.evict().await?,
        };
        let (activity, due) = self.next_due(ages).await?;
        Ok((messages, activity, due))
    }

    /// When the next message has to go. The activity is read before the statement, so whatever comes during it counts as new.
    async fn next_due(&self, ages: Ages) -> Result<(u64, Option<Instant>)> {
        let inner = &self.inner;
        let activity = inner.wake.activity();
        let sql = match ages {
            Ages::Kept => &inner.sql.next_kept,
            Ages::Waiting => &inner.sql.next_waiting,
        };
        let rows = inner.db.observer().ask("find what has to go next", || sqlx::query(sql)).await?;
        let next_ms: Option<f64> = rows.first().map(|row| row.try_get(0)).transpose()?.flatten();
        Ok((activity, next_ms.map(|ms| Instant::now() + until(ms))))
    }

    /// Removes once what was kept long enough; how many messages. None if another server is at it.
    ///
    /// # Errors
    /// The database's; what was done is done.
    pub async fn retain(&self) -> Result<u64> {
        self.tidy(Ages::Kept).await
    }

    /// Passes over, and removes, once what has waited too long, and removes what deleted queues have left; how many messages, each group's counted. None if another server is at it.
    ///
    /// # Errors
    /// The database's; what was done is done.
    pub async fn evict(&self) -> Result<u64> {
        self.inner.delete_removed().await?;
        Ok(self.tidy(Ages::Waiting).await? + self.pass_over().await?)
    }

    /// A transaction in which nobody else keeps house. `None`: somebody does.
    async fn house(&self) -> Result<Option<PgTransaction<'static>>> {
        let inner = &self.inner;
        let mut transaction = inner.db.begin().await?;
        let ours: bool = sqlx::query_scalar(&inner.sql.lock_house).fetch_one(&mut *transaction).await?;
        if !ours {
            transaction.rollback().await?;
            return Ok(None);
        }
        Ok(Some(transaction))
    }

    async fn tidy(&self, ages: Ages) -> Result<u64> {
        let inner = &self.inner;
        let ages = match ages {
            Ages::Kept => "kept",
            Ages::Waiting => "waiting",
        };
        let (mut removed, mut after, mut in_vain) = (0, Some(0), 0);
        // What is left to remove of the partitions that were found last, and of those among them that somebody else had.
        let (mut tasks, mut busy) = (Vec::<Task>::new(), Vec::<Task>::new());
        while let Some(mut transaction) = self.house().await? {
            if in_vain >= IN_VAIN_MAX {
                busy.clear();
            }
            // PollResult for only when all that were found are done with: it reads every partition that has nothing to remove.
            if let Some(behind) = after.filter(|_| tasks.is_empty() && busy.is_empty()) {
                let query = sqlx::query(&inner.sql.expired).bind(ages).bind(behind).bind(PARTITIONS as i64);
                let rows = query.fetch_all(&mut *transaction).await?;
                tasks = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<sqlx::Result<_>>()?;
                // Fewer than there might have been are the last.
                after = tasks.get(PARTITIONS - 1).map(|(partition, _)| *partition);
            }
            if tasks.is_empty() && busy.is_empty() {
                // Dropped, it would be over some time later, and the lock with it.
                transaction.rollback().await?;
                break;
            }
            // One that is pushed to all the time is never found free, so it is waited for; alone, so that nobody waits for us meanwhile.
            let patient = tasks.is_empty();
            let step: Vec<Task> = if patient { busy.pop().into_iter().collect() } else { std::mem::take(&mut tasks) };
            if patient {
                sqlx::query(&inner.sql.wait_briefly).execute(&mut *transaction).await?;
            }
            let (partitions, uptos): (Vec<i64>, Vec<i64>) = step.iter().copied().unzip();
            let query = sqlx::query(&inner.sql.trim).bind(&partitions).bind(&uptos).bind(SEGMENTS).bind(patient);
            let rows = match query.fetch_all(&mut *transaction).await.map_err(reveille_pg::Error::from) {
                Err(error) if patient && error.is_lock_timeout() => {
                    transaction.rollback().await?;
                    in_vain += 1;
                    continue;
                }
                rows => rows?,
            };
            sqlx::query(&inner.sql.forget_traces).bind(&partitions).execute(&mut *transaction).await?;
            transaction.commit().await?;
            for row in rows {
                let (partition, messages, more): (i64, i64, bool) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
                removed += messages as u64;
                let rest = step.iter().filter(|(task, _)| more && *task == partition);
                if patient || messages == 0 { busy.extend(rest) } else { tasks.extend(rest) }
            }
        }
        Ok(removed)
    }

    async fn pass_over(&self) -> Result<u64> {
        let inner = &self.inner;
        let (mut passed, mut after) = (0, (0_i64, 0_i32));
        while let Some(mut transaction) = self.house().await? {
            let query = sqlx::query(&inner.sql.overdue).bind(after.0).bind(after.1).bind(CURSORS);
            let rows = query.fetch_all(&mut *transaction).await?;
            let cursor = |row: &PgRow| Ok((row.try_get(0)?, row.try_get(1)?));
            let cursors = rows.iter().map(cursor).collect::<sqlx::Result<Vec<(i64, i32)>>>()?;
            let Some(last) = cursors.last() else {
                transaction.rollback().await?;
                break;
            };
            after = *last;
            let (partitions, consumers): (Vec<i64>, Vec<i32>) = cursors.into_iter().unzip();
            let query = sqlx::query(&inner.sql.evict).bind(partitions).bind(consumers);
            let rows = query.fetch_all(&mut *transaction).await?;
            transaction.commit().await?;
            let mut wake_ups = Vec::new();
            for row in &rows {
                passed += row.try_get::<i64, _>(2)? as u64;
                if row.try_get(3)? {
                    wake_ups.push(released(&inner.channel, row.try_get(0)?, row.try_get(1)?));
                }
            }
            inner.wake.wake_up(&wake_ups);
        }
        Ok(passed)
    }
}
