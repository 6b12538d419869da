//! Housekeeping: deleting messages that have passed the retention of their queue.
//!
//! Messages are deleted from the front of a partition, whole segments at a time: a segment is deleted when all its
//! messages may be. So no search is needed: the first segment of a partition says whether it has anything to delete.
//! Each step is short and locks few partitions. Of several servers one deletes at a time.
//!
//! | option | messages that are | effect |
//! |---|---|---|
//! | `retentionEnabled`, `retentionSeconds` | older, consumed or not | deleted |
//! | `retentionEnabled`, `completedRetentionSeconds` | older, consumed by every group | deleted |
//! | `consumedRetentionSeconds`, unless `retentionEnabled` | older, consumed by every group (1 day) | deleted |
//! | `ttl`, if it was set | older, consumed or not | deleted |
//! | `maxWaitTimeSeconds` | waiting longer for a group | skipped by the group; deleted where no group reads |

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

/// After so many lock timeouts a run does not wait for locked partitions any more; the next one does.
const LOCK_TIMEOUTS_MAX: usize = 20;

/// The intervals of housekeeping. While nothing happens in the schema, it runs when the next message becomes due.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RetentionOptions {
    /// The shortest time between two deletions by retention. Default 300 s.
    pub retention_interval: Duration,
    /// The shortest time between two deletions by `ttl` and `maxWaitTimeSeconds`. Default 60 s.
    pub eviction_interval: Duration,
}

impl Default for RetentionOptions {
    fn default() -> Self {
        RetentionOptions { retention_interval: Duration::from_secs(300), eviction_interval: Duration::from_secs(60) }
    }
}

impl RetentionOptions {
    /// Sets [`retention_interval`](Self::retention_interval).
    pub fn retention_interval(self, retention_interval: Duration) -> RetentionOptions {
        RetentionOptions { retention_interval, ..self }
    }

    /// Sets [`eviction_interval`](Self::eviction_interval).
    pub fn eviction_interval(self, eviction_interval: Duration) -> RetentionOptions {
        RetentionOptions { eviction_interval, ..self }
    }
}

/// The longest time until the next check: due times further away would overflow arithmetic on instants.
const LONGEST: Duration = Duration::from_secs(30 * 86_400);

/// Housekeeping runs until this is dropped.
#[derive(Debug)]
pub struct Housekeeping(JoinHandle<()>);

impl Drop for Housekeeping {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The options by which messages are deleted.
#[derive(Debug, Clone, Copy)]
enum Ages {
    Retention,
    Waiting,
}

/// The time until something that is due in `ms` milliseconds is in the past.
fn until(ms: f64) -> Duration {
    if ms <= 0.0 { Duration::ZERO } else { Duration::from_secs_f64(((ms + 1.0) / 1_000.0).min(LONGEST.as_secs_f64())) }
}

/// A partition, and the offset up to which its messages are deleted, exclusive.
type Task = (i64, i64);

impl Queues {
    /// Runs housekeeping until the returned value is dropped. Every server calls it; of all servers of a schema one
    /// works at a time.
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
                    () = sleep_until(retention.next()) => queues.run_if_wanted(Ages::Retention, &mut retention).await,
                    () = sleep_until(eviction.next()) => queues.run_if_wanted(Ages::Waiting, &mut eviction).await,
                }
            }
        }))
    }

    /// Runs once if there is a reason. While nothing happens this sends no statement.
    async fn run_if_wanted(&self, ages: Ages, schedule: &mut Schedule) {
        if !schedule.is_wanted(self.inner.wake.activity(), Instant::now()) {
            return schedule.skip(Instant::now());
        }
        match self.run_once(ages).await {
            Ok((messages, activity, due)) => {
                if messages > 0 {
                    tracing::debug!(messages, "housekeeping removed messages");
                }
                schedule.end(activity, due, Instant::now());
            }
            Err(error) => {
                tracing::warn!(error = reveille_pg::causes(&error), "housekeeping failed; it is retried");
                schedule.fail(Instant::now());
            }
        }
    }

    /// Returns the number of deleted messages, the activity at the beginning, and when the next message becomes due.
    async fn run_once(&self, ages: Ages) -> Result<(u64, u64, Option<Instant>)> {
        let (activity, due) = self.next_due(ages).await?;
        if due.is_none_or(|due| due > Instant::now()) {
            return Ok((0, activity, due));
        }
        let messages = match ages {
            Ages::Retention => self.retain().await?,
            Ages::Waiting => self.evict().await?,
        };
        let (activity, due) = self.next_due(ages).await?;
        Ok((messages, activity, due))
    }

    /// When the next message becomes due. The activity is read before the statement, so that a change during the
    /// statement counts as new.
    async fn next_due(&self, ages: Ages) -> Result<(u64, Option<Instant>)> {
        let inner = &self.inner;
        let activity = inner.wake.activity();
        let sql = match ages {
            Ages::Retention => &inner.sql.next_retained,
            Ages::Waiting => &inner.sql.next_waiting,
        };
        let rows = inner.db.observer().ask("find the next message to delete", || sqlx::query(sql)).await?;
        let next_ms: Option<f64> = rows.first().map(|row| row.try_get(0)).transpose()?.flatten();
        Ok((activity, next_ms.map(|ms| Instant::now() + until(ms))))
    }

    /// Deletes messages by the retention options, once; returns their number. Zero if another server is deleting.
    ///
    /// # Errors
    /// Those of the database. Steps before the error are committed.
    pub async fn retain(&self) -> Result<u64> {
        self.delete_aged(Ages::Retention).await
    }

    /// Deletes messages by `ttl`, skips messages by `maxWaitTimeSeconds`, and deletes the remains of deleted queues,
    /// once. Returns the number of messages, those of each group counted. Zero if another server is deleting.
    ///
    /// # Errors
    /// Those of the database. Steps before the error are committed.
    pub async fn evict(&self) -> Result<u64> {
        self.inner.delete_removed().await?;
        Ok(self.delete_aged(Ages::Waiting).await? + self.skip_overdue().await?)
    }

    /// A transaction with the lock of housekeeping. `None`: another server has it.
    async fn lock_housekeeping(&self) -> Result<Option<PgTransaction<'static>>> {
        let inner = &self.inner;
        let mut transaction = inner.db.begin().await?;
        let has_lock: bool = sqlx::query_scalar(&inner.sql.lock_housekeeping).fetch_one(&mut *transaction).await?;
        if !has_lock {
            transaction.rollback().await?;
            return Ok(None);
        }
        Ok(Some(transaction))
    }

    async fn delete_aged(&self, ages: Ages) -> Result<u64> {
        let inner = &self.inner;
        let ages = match ages {
            Ages::Retention => "retention",
            Ages::Waiting => "waiting",
        };
        let (mut removed, mut after, mut lock_timeouts) = (0, Some(0), 0);
        // The rest of the partitions that were found last, and those among them that were locked.
        let (mut tasks, mut busy) = (Vec::<Task>::new(), Vec::<Task>::new());
        while let Some(mut transaction) = self.lock_housekeeping().await? {
            if lock_timeouts >= LOCK_TIMEOUTS_MAX {
                busy.clear();
            }
            // The query reads every partition that has nothing to delete, so it runs only when all that it found are
            // done.
            if let Some(behind) = after.filter(|_| tasks.is_empty() && busy.is_empty()) {
                let query = sqlx::query(&inner.sql.expired).bind(ages).bind(behind).bind(PARTITIONS as i64);
                let rows = query.fetch_all(&mut *transaction).await?;
                tasks = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<sqlx::Result<_>>()?;
                // A short page is the last.
                after = tasks.get(PARTITIONS - 1).map(|(partition, _)| *partition);
            }
            if tasks.is_empty() && busy.is_empty() {
                // Dropping it would roll back later, and keep the lock until then.
                transaction.rollback().await?;
                break;
            }
            // A partition that is pushed to all the time is always locked, so the step waits for its lock; alone, so
            // that no other partition is locked meanwhile.
            let patient = tasks.is_empty();
            let step: Vec<Task> = if patient { busy.pop().into_iter().collect() } else { std::mem::take(&mut tasks) };
            if patient {
                sqlx::query(&inner.sql.wait_briefly).execute(&mut *transaction).await?;
            }
            let (partitions, ends): (Vec<i64>, Vec<i64>) = step.iter().copied().unzip();
            let query = sqlx::query(&inner.sql.trim).bind(&partitions).bind(&ends).bind(SEGMENTS).bind(patient);
            let rows = match query.fetch_all(&mut *transaction).await.map_err(reveille_pg::Error::from) {
                Err(error) if patient && error.is_lock_timeout() => {
                    transaction.rollback().await?;
                    lock_timeouts += 1;
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

    async fn skip_overdue(&self) -> Result<u64> {
        let inner = &self.inner;
        let (mut skipped, mut after) = (0, (0_i64, 0_i32));
        while let Some(mut transaction) = self.lock_housekeeping().await? {
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
                skipped += row.try_get::<i64, _>(2)? as u64;
                if row.try_get(3)? {
                    wake_ups.push(released(&inner.channel, row.try_get(0)?, row.try_get(1)?));
                }
            }
            inner.wake.wake_up(&wake_ups);
        }
        Ok(skipped)
    }
}
