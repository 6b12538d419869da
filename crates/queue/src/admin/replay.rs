//! Replaying and purging dead letters, in steps.
//!
//! A filter may match a million dead letters. So both work in steps of one short transaction each. A caller of a single
//! step learns where the next one continues: it can show progress, and stop in between. What failed after it was shown
//! to an operator is not touched: see [`DeadLetterFilter::up_to`].
//!
//! A replayed message has a trace that says which dead letter it was.

use reveille_pg::audit::Entry;
use serde::Serialize;
use serde_json::value::RawValue;
use sqlx::{Acquire, PgTransaction, Row};
use time::format_description::well_known::Rfc3339;

use crate::admin::dead_letters::{DeadLetter, DeadLetterFilter, Replayed};
use crate::admin::queue_pages::Paged;
use crate::admin::resources::PAGE_BYTES_MAX;
use crate::error::{Error, Result};
use crate::message::{NewMessage, PushStatus};
use crate::name::LENGTH_MAX;
use crate::produce::append::PendingHashes;
use crate::queues::Queues;

/// The most dead letters of one step: a replay locks their partitions.
pub const STEP_MAX: u32 = 200;
/// Dead letters of a filter that are counted; the count stops there.
pub const MATCHING_COUNTED: u32 = 100_000;
/// The event of the trace of a replayed message.
#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "the HTTP API reads it"))]
pub(crate) const REPLAYED: &str = "replayed";
/// How often a step is repeated with other ids because one has just been used.
const ATTEMPTS: usize = 4;
/// Characters of the error in a trace.
const ERROR_MAX: usize = 2_000;

/// The dead letters of a filter, as they are now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Matching {
    /// Their number, up to [`MATCHING_COUNTED`].
    pub count: u64,
    /// The last of them, for [`DeadLetterFilter::up_to`].
    pub up_to: Option<i64>,
}

/// The result of one step of a replay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplayStep {
    /// The number of replayed dead letters.
    pub replayed: usize,
    /// Those that were not replayed, each with the reason.
    pub kept: Vec<(i64, String)>,
    /// After which the next step continues; `None`: there are no more.
    pub next: Option<i64>,
}

/// A dead letter that is replayed, perhaps with others of the same message.
struct Replay {
    ids: Vec<i64>,
    message: NewMessage,
    letter: DeadLetter,
}

/// Where a replayed message comes from.
#[derive(Serialize)]
struct Origin<'a> {
    dead_letter_id: i64,
    message_id: String,
    transaction_id: &'a str,
    offset: i64,
    error: Option<String>,
    failed_at: Option<String>,
    /// Whether its payload was changed.
    edited: bool,
}

impl Queues {
    /// A page of dead letters, newest first. `after`: the number of the last one of the page before.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an invalid name; otherwise those of the database.
    pub async fn dead_letters_after(
        &self,
        filter: &DeadLetterFilter,
        after: Option<i64>,
        limit: u32,
    ) -> Result<Paged<DeadLetter, i64>> {
        filter.check()?;
        let inner = &self.inner;
        let before = after.map(|after| after.saturating_sub(1));
        let up_to = [filter.up_to, before].into_iter().flatten().min();
        let filter = DeadLetterFilter { up_to, ..filter.clone() };
        let query = || {
            let query = filter.bind(sqlx::query(&inner.sql.page_dead_letters), inner.ids);
            query.bind(i64::from(limit)).bind(PAGE_BYTES_MAX)
        };
        let rows = inner.db.ask("list dead letters", query).await?;
        let rows = rows.iter().map(|row| self.read(row)).collect::<Result<Vec<_>>>()?;
        let last = rows.last().map(|letter| letter.id);
        // A page that large payloads have ended is short; then another page is asked for in vain, perhaps.
        let bytes: usize = rows.iter().filter_map(|letter| letter.payload.as_ref()).map(|json| json.get().len()).sum();
        let is_cut = rows.len() >= limit as usize || bytes as i64 > PAGE_BYTES_MAX / 2;
        Ok(Paged { next: last.filter(|_| is_cut), rows })
    }

    /// How many dead letters a filter matches.
    ///
    /// # Errors
    /// As [`dead_letters_after`](Self::dead_letters_after).
    pub async fn matching(&self, filter: &DeadLetterFilter) -> Result<Matching> {
        filter.check()?;
        let inner = &self.inner;
        let query = || {
            let query = filter.bind(sqlx::query(&inner.sql.count_matching_dead_letters), inner.ids);
            query.bind(i64::from(MATCHING_COUNTED))
        };
        let rows = inner.db.ask("count dead letters", query).await?;
        let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
        Ok(Matching { count: row.try_get::<i64, _>(0)? as u64, up_to: row.try_get(1)? })
    }

    /// Pushes dead letters again, oldest first. Those whose queue is full, or that cannot be decrypted here, stay.
    ///
    /// # Errors
    /// [`Error::RolledBack`] if a queue is changed or under maintenance: some may have been replayed, the others are
    /// unchanged. Otherwise those of the database.
    pub async fn replay(&self, filter: &DeadLetterFilter) -> Result<Replayed> {
        let mut done = Replayed::default();
        let mut after = 0;
        loop {
            let step = self.replay_step(filter, after, STEP_MAX).await?;
            done.replayed += step.replayed;
            done.skipped.extend(step.kept.into_iter().map(|(id, why)| format!("dead letter {id}: {why}")));
            match step.next {
                Some(next) => after = next,
                None => return Ok(done),
            }
        }
    }

    /// One step of a replay: up to `limit` dead letters after one, oldest first.
    ///
    /// # Errors
    /// As [`replay`](Self::replay); nothing of the step was replayed.
    pub async fn replay_step(&self, filter: &DeadLetterFilter, after: i64, limit: u32) -> Result<ReplayStep> {
        self.replay_some(filter, after, limit, None).await
    }

    /// Replays one dead letter with another payload. `None`: there is no such dead letter, or another replay has it.
    ///
    /// # Errors
    /// As [`replay`](Self::replay); [`Error::RolledBack`] also if its queue does not take it.
    pub async fn replay_edited(&self, id: i64, payload: &RawValue) -> Result<Option<()>> {
        let filter = DeadLetterFilter { ids: Some(vec![id]), ..DeadLetterFilter::default() };
        let step = self.replay_some(&filter, 0, 1, Some(payload)).await?;
        match step.kept.into_iter().next() {
            Some((_, reason)) => Err(Error::RolledBack { reason }),
            None => Ok((step.replayed > 0).then_some(())),
        }
    }

    async fn replay_some(
        &self,
        filter: &DeadLetterFilter,
        after: i64,
        limit: u32,
        edited: Option<&RawValue>,
    ) -> Result<ReplayStep> {
        filter.check()?;
        let inner = &self.inner;
        let limit = i64::from(limit.clamp(1, STEP_MAX));
        let mut step = ReplayStep::default();
        let mut transaction = inner.db.begin().await?;
        let query = filter.bind(sqlx::query(&inner.sql.take_dead_letters), inner.ids).bind(after).bind(limit);
        let taken = query.fetch_all(&mut *transaction).await.map_err(Error::from)?;
        let (mut ids, mut bytes) = (Vec::with_capacity(taken.len()), 0);
        for row in &taken {
            bytes += row.try_get::<i64, _>(1)?;
            if !ids.is_empty() && bytes > PAGE_BYTES_MAX {
                break;
            }
            ids.push(row.try_get::<i64, _>(0)?);
        }
        let is_cut = ids.len() < taken.len() || taken.len() as i64 == limit;
        step.next = ids.last().copied().filter(|_| is_cut);
        let query = sqlx::query(&inner.sql.read_dead_letters).bind(&ids);
        let rows = query.fetch_all(&mut *transaction).await.map_err(Error::from)?;
        let mut replays: Vec<Replay> = Vec::with_capacity(rows.len());
        for row in &rows {
            let mut letter = self.read(row)?;
            if let Some(payload) = edited {
                letter.payload = Some(payload.to_owned());
            }
            let id = letter.id;
            match (replays.iter_mut().find(|it| it.letter.message_id == letter.message_id), letter.message()) {
                // Dead letters of several groups for one message are replayed once.
                (Some(known), _) => known.ids.push(id),
                (None, Some(message)) => replays.push(Replay { ids: vec![id], message, letter }),
                (None, None) => step.kept.push((id, "it cannot be decrypted here".to_owned())),
            }
        }
        let (pushed, pending) = self.push_replays(&mut transaction, &mut replays).await?;
        let (mut ended, mut origins): (Vec<i64>, Vec<Replay>) = (Vec::new(), Vec::new());
        for (replay, status) in replays.into_iter().zip(pushed) {
            match status {
                PushStatus::Queued => {
                    ended.extend(&replay.ids);
                    origins.push(replay);
                }
                PushStatus::Failed(why) => step.kept.push((replay.ids[0], why)),
                _ => step.kept.push((replay.ids[0], "its transaction id is in use".to_owned())),
            }
        }
        let query = sqlx::query(&inner.sql.delete_dead_letters).bind(&ended);
        query.execute(&mut *transaction).await.map_err(Error::from)?;
        self.trace_origins(&mut transaction, &origins, edited.is_some()).await?;
        if let Some(entry) = audited(&origins, ended.len(), edited.is_some()) {
            entry.write(&mut transaction).await?;
        }
        transaction.commit().await.map_err(Error::from)?;
        inner.push.learn(pending);
        step.replayed = ended.len();
        Ok(step)
    }

    /// Deletes dead letters; returns their number.
    ///
    /// # Errors
    /// As [`dead_letters`](Self::dead_letters).
    pub async fn purge(&self, filter: &DeadLetterFilter) -> Result<u64> {
        let mut purged = 0;
        loop {
            let (some, next) = self.purge_step(filter, STEP_MAX).await?;
            purged += some;
            if next.is_none() {
                return Ok(purged);
            }
        }
    }

    /// Deletes the `limit` oldest dead letters of a filter; returns their number, and the last of them if there may be
    /// more.
    ///
    /// # Errors
    /// As [`dead_letters`](Self::dead_letters).
    pub async fn purge_step(&self, filter: &DeadLetterFilter, limit: u32) -> Result<(u64, Option<i64>)> {
        filter.check()?;
        let inner = &self.inner;
        let limit = i64::from(limit.clamp(1, STEP_MAX));
        let query = || filter.bind(sqlx::query(&inner.sql.purge_dead_letters), inner.ids).bind(limit);
        let target = filter.queue.clone().unwrap_or_else(|| "*".to_owned());
        let entry = Entry::new("dead_letters.purge", target);
        let purged = inner.db.act("purge dead letters", entry, query, |rows| !rows.is_empty()).await?;
        let ids = purged.iter().map(|row| row.try_get(0)).collect::<sqlx::Result<Vec<i64>>>()?;
        let last = ids.iter().max().copied();
        Ok((ids.len() as u64, last.filter(|_| ids.len() as i64 == limit)))
    }

    /// Pushes dead letters in their order. Those whose transaction id is used are renamed and pushed under the new one.
    /// Also returns the hashes to cache after the commit.
    async fn push_replays(
        &self,
        transaction: &mut PgTransaction<'_>,
        replays: &mut [Replay],
    ) -> Result<(Vec<PushStatus>, PendingHashes)> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            // Rolled back if an id is used: the next attempt pushes the dead letter under another id, in its order.
            let mut savepoint = transaction.begin().await?;
            let messages: Vec<NewMessage> = replays.iter().map(|replay| replay.message.clone()).collect();
            let mut pending = PendingHashes::default();
            let pushed = self.push_uncommitted(&mut savepoint, &messages, &mut pending).await?;
            if attempt == ATTEMPTS || pushed.iter().all(|pushed| pushed.status != PushStatus::Duplicate) {
                savepoint.commit().await?;
                return Ok((pushed.into_iter().map(|pushed| pushed.status).collect(), pending));
            }
            savepoint.rollback().await?;
            for (replay, pushed) in replays.iter_mut().zip(pushed) {
                if pushed.status == PushStatus::Duplicate {
                    replay.message.rename(replay.ids[0]);
                }
            }
        }
    }

    async fn trace_origins(&self, transaction: &mut PgTransaction<'_>, replays: &[Replay], edited: bool) -> Result<()> {
        if replays.is_empty() {
            return Ok(());
        }
        let (mut partitions, mut transactions, mut groups, mut origins) = (vec![], vec![], vec![], vec![]);
        for Replay { message, letter, .. } in replays {
            let origin = Origin {
                dead_letter_id: letter.id,
                message_id: letter.message_id.to_string(),
                transaction_id: &letter.transaction_id,
                offset: letter.offset,
                error: letter.error.as_ref().map(|error| error.chars().take(ERROR_MAX).collect()),
                failed_at: letter.failed_at.format(&Rfc3339).ok(),
                edited,
            };
            partitions.push(self.inner.ids.number(letter.partition_id));
            transactions.push(message.transaction_id.as_deref());
            groups.push(letter.group.as_str());
            origins.push(serde_json::to_string(&origin).unwrap_or_default());
        }
        let query = sqlx::query(&self.inner.sql.add_replay_traces).bind(partitions).bind(transactions);
        query.bind(groups).bind(origins).execute(&mut **transaction).await.map_err(Error::from)?;
        Ok(())
    }
}

/// The row of the audit for a step that has replayed `count` dead letters. `None`: none, or there is no client.
fn audited(replays: &[Replay], count: usize, edited: bool) -> Option<Entry> {
    let queue = &replays.first()?.letter.queue;
    let is_one = replays.iter().all(|replay| replay.letter.queue == *queue);
    let entry = Entry::new("dead_letters.replay", if is_one { queue } else { "*" })?;
    Some(entry.detail(format!("{{\"count\":{count},\"edited\":{edited}}}")))
}

impl DeadLetter {
    /// The message to push. `None`: it cannot be decrypted here.
    fn message(&self) -> Option<NewMessage> {
        Some(NewMessage {
            queue: self.queue.clone(),
            partition: Some(self.partition.clone()),
            payload: self.payload.clone()?,
            transaction_id: Some(self.transaction_id.clone()),
            trace_id: self.trace_id.clone(),
            producer: self.producer.clone(),
        })
    }
}

impl NewMessage {
    /// Gives it a transaction id that no other dead letter gets.
    fn rename(&mut self, number: i64) {
        let end = format!("~{number}");
        let given = self.transaction_id.take().unwrap_or_default();
        let start: String = given.chars().take(LENGTH_MAX - end.len()).collect();
        self.transaction_id = Some(start + &end);
    }
}
