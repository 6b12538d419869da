//! Claiming partitions for pops.
//!
//! Waiters are equal if they read the same source for the same consumer group: one claim serves all of them. They differ in how much they take and for how long, so the claim takes
//! one row of arguments per waiter, and each gets partitions and a lease of its own: the messages of one partition never go to two of them.
//!
//! A claim whose answer was lost has leased partitions that will never be acked. This process chose the lease ids, so it
//! knows them: the next poll releases them first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use reveille_pg::{Schema, Sql};
use reveille_wake::{Channel, Claim, PollRequest, PollResult, ScanBounds, Topic, topic_key};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use tokio::time::Instant;
use uuid::Uuid;

use crate::admin::message_counters::MessageCounters;
use crate::consume::lease_cache::LeaseCache;
use crate::consume::pop::{Source, Subscription};
use crate::id::Ids;
use crate::message::{Message, Stored};
use crate::name::hash;

/// Bytes of the answer to one pop, but for a single message that is larger; less if many waiters are served together. A client has to hold the answer in memory, and so has the server.
pub(crate) const ANSWER_BYTES_MAX: usize = 16 << 20;
/// What each waiter gets however many are served together: a segment.
const ANSWER_BYTES_MIN: usize = 256 << 10;
/// What all seats of a look get together as a rule.
const ALL_ANSWERS_BYTES: usize = 64 << 20;
/// How often a look claims again behind messages that were deleted; then they are for the next.
const GAPS_MAX: usize = 10;
/// Leases remembered to be given back; beyond it they come back when they end.
const UNANSWERED_MAX: usize = 10_000;

/// What makes waiters equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) source: Source,
    pub(crate) group: String,
}

/// In what they differ.
#[derive(Debug)]
pub(crate) struct Args {
    pub(crate) batch: usize,
    pub(crate) partitions: usize,
    pub(crate) lease: Option<Duration>,
    pub(crate) subscription: Subscription,
    pub(crate) waiting_since: Instant,
    /// When it looked first there was no such queue: everything in it is new.
    pub(crate) queue_was_missing: AtomicBool,
}

/// What a claim took for a waiter.
#[derive(Debug)]
pub(crate) struct LeasedBatch {
    pub(crate) lease_id: Uuid,
    pub(crate) messages: Vec<Message<Stored>>,
}

impl LeasedBatch {
    /// How many partitions its messages are of.
    pub(crate) fn partitions(&self) -> usize {
        self.messages.chunk_by(|one, other| one.partition_id == other.partition_id).count()
    }
}

/// How partitions are claimed.
pub(crate) struct Pops {
    channel: Channel,
    ids: Ids,
    unanswered: Mutex<Vec<Uuid>>,
    lease_cache: Arc<Mutex<LeaseCache>>,
    counters: Arc<MessageCounters>,
    /// Of sources that are any partition of a queue.
    bounds: ScanBounds<Key>,
    claim: Sql,
    due_queues: Sql,
    release: Sql,
    skip: Sql,
    sweep: Sql,
}

impl Pops {
    pub(crate) fn new(
        schema: &Schema,
        channel: Channel,
        lease_cache: Arc<Mutex<LeaseCache>>,
        counters: Arc<MessageCounters>,
    ) -> Pops {
        Pops {
            channel,
            ids: Ids::of(schema.name()),
            unanswered: Mutex::default(),
            lease_cache,
            counters,
            bounds: ScanBounds::new(),
            claim: schema.sql(reveille_pg::statement!("claim")),
            due_queues: schema.sql(reveille_pg::statement!("due_queues")),
            release: schema.sql(reveille_pg::statement!("release_leases")),
            skip: schema.sql(reveille_pg::statement!("skip")),
            sweep: schema.sql(reveille_pg::statement!("sweep")),
        }
    }

    fn unanswered(&self) -> MutexGuard<'_, Vec<Uuid>> {
        self.unanswered.lock()
    }
}

/// Leases that may have been granted. Dropped, they are to be given back: their claim failed, or nobody waits for its answer.
struct UnansweredLeases<'a> {
    pops: &'a Pops,
    leases: Vec<Uuid>,
}

impl Drop for UnansweredLeases<'_> {
    fn drop(&mut self) {
        let mut unanswered = self.pops.unanswered();
        let room = UNANSWERED_MAX.saturating_sub(unanswered.len());
        unanswered.extend(self.leases.drain(..).take(room));
    }
}

/// What a look has progress so far.
struct Progress<'a> {
    /// The leases of it.
    unanswered: UnansweredLeases<'a>,
    /// For each seat what it has and for how long.
    waiters: Vec<Option<(LeasedBatch, Duration)>>,
    next_due_ms: Option<f64>,
    /// When the oldest of it became due, by the database's clock; and that clock, if nothing else is due.
    oldest_us: Option<i64>,
    now_us: Option<i64>,
}

impl Progress<'_> {
    /// Takes out seats that have a lease and no message. Whether there were any.
    fn drop_empty(&mut self) -> bool {
        let empty = |slot: &mut Option<(LeasedBatch, Duration)>| slot.take_if(|(leased, _)| leased.messages.is_empty());
        self.waiters.iter_mut().filter_map(empty).count() > 0
    }

    fn due(&mut self, ms: Option<f64>) {
        self.next_due_ms = self.next_due_ms.into_iter().chain(ms).reduce(f64::min);
    }
}

impl Claim for Pops {
    type Key = Key;
    type Args = Args;
    type Item = LeasedBatch;

    fn topics(&self, key: &Key) -> Vec<Topic> {
        let topics = match key.source.parts() {
            [Some(queue), Some(partition), ..] => {
                [topic_key('p', &[queue, partition]), topic_key('g', &[queue, &key.group])]
            }
            [Some(queue), None, ..] => [topic_key('q', &[queue]), topic_key('g', &[queue, &key.group])],
            [_, _, Some(namespace), Some(task)] => [topic_key('b', &[namespace, task]), topic_key('s', &[&key.group])],
            [_, _, Some(namespace), None] => [topic_key('n', &[namespace]), topic_key('s', &[&key.group])],
            [_, _, None, task] => [topic_key('t', &[task.unwrap_or_default()]), topic_key('s', &[&key.group])],
        };
        topics.iter().map(|key| self.channel.topic_of(key)).collect()
    }

    async fn poll(
        &self,
        conn: &mut PgConnection,
        poll: &PollRequest<Key, Args>,
    ) -> reveille_pg::Result<PollResult<LeasedBatch>> {
        let mut unanswered = UnansweredLeases { pops: self, leases: std::mem::take(&mut *self.unanswered()) };
        if !unanswered.leases.is_empty() {
            self.release(conn, &unanswered.leases).await?;
            unanswered.leases.clear();
        }
        let mut progress = Progress {
            unanswered: UnansweredLeases { pops: self, leases: Vec::new() },
            waiters: poll.waiters.iter().map(|_| None).collect(),
            next_due_ms: None,
            oldest_us: None,
            now_us: None,
        };
        match poll.key.source.parts() {
            [Some(queue), None, ..] => {
                let reading = self.bounds.begin(&poll.key, Instant::now());
                self.take(conn, poll, (queue, None), reading.bound_us, &mut progress).await?;
                let (oldest, now) = (progress.oldest_us, progress.now_us);
                let sweep = self.bounds.end(&poll.key, reading, oldest, now, Instant::now());
                progress.due(sweep.map(|sweep| sweep.as_secs_f64() * 1_000.0));
            }
            [Some(queue), partition, ..] => self.take(conn, poll, (queue, partition), None, &mut progress).await?,
            [_, _, namespace, task] => {
                let query = sqlx::query(&self.due_queues).bind(namespace).bind(task).bind(&poll.key.group);
                for row in query.fetch_all(&mut *conn).await? {
                    let due_ms: f64 = row.try_get(1)?;
                    let served = progress.waiters.iter().all(Option::is_some);
                    if due_ms > 0.0 || served {
                        progress.due(Some(due_ms));
                        continue;
                    }
                    match self.take(conn, poll, (row.try_get(0)?, None), None, &mut progress).await {
                        // What was taken from other queues must not be unanswered with it.
                        Err(_) if progress.waiters.iter().any(Option::is_some) => {
                            progress.due(Some(0.0));
                            break;
                        }
                        taken => taken?,
                    }
                }
            }
        }
        self.remember(&poll.key.group, progress.waiters.iter().flatten().map(|(leased, _)| leased));
        let mut polled = PollResult::next_due_ms(progress.next_due_ms);
        progress.unanswered.leases.clear();
        for (waiter, slot) in std::mem::take(&mut progress.waiters).into_iter().enumerate() {
            if let Some((leased, lease)) = slot {
                polled.give(waiter, leased, Some(lease));
            }
        }
        Ok(polled)
    }

    async fn give_back(&self, conn: &mut PgConnection, batches: &[LeasedBatch]) -> reveille_pg::Result<()> {
        self.release(conn, &batches.iter().map(|batch| batch.lease_id).collect::<Vec<_>>()).await
    }

    async fn sweep(&self, conn: &mut PgConnection, keys: &[Key]) -> reveille_pg::Result<Vec<usize>> {
        let part = |at: usize| keys.iter().map(|key| key.source.parts()[at]).collect::<Vec<_>>();
        let due: Vec<i32> = sqlx::query_scalar(&self.sweep)
            .bind(part(0))
            .bind(part(1))
            .bind(part(2))
            .bind(part(3))
            .bind(keys.iter().map(|key| key.group.as_str()).collect::<Vec<_>>())
            .fetch_all(conn)
            .await?;
        Ok(due.into_iter().map(|number| number as usize - 1).collect())
    }
}

impl Pops {
    /// Claims for the seats that have nothing yet, in one queue. Where only deleted messages were progress, what lies behind them is claimed next.
    async fn take(
        &self,
        conn: &mut PgConnection,
        poll: &PollRequest<Key, Args>,
        source: (&str, Option<&str>),
        bound_us: Option<i64>,
        progress: &mut Progress<'_>,
    ) -> reveille_pg::Result<()> {
        for _ in 0..GAPS_MAX {
            if !self.take_once(conn, poll, source, bound_us, progress).await? {
                return Ok(());
            }
        }
        progress.due(Some(0.0));
        Ok(())
    }

    /// Whether a seat had only messages that were deleted.
    async fn take_once(
        &self,
        conn: &mut PgConnection,
        poll: &PollRequest<Key, Args>,
        (queue, partition): (&str, Option<&str>),
        bound_us: Option<i64>,
        progress: &mut Progress<'_>,
    ) -> reveille_pg::Result<bool> {
        let unserved: Vec<usize> =
            (0..poll.waiters.len()).filter(|waiter| progress.waiters[*waiter].is_none()).collect();
        let waiters = || unserved.iter().map(|index| &*poll.waiters[*index].args);
        let mut unanswered = UnansweredLeases { pops: self, leases: unserved.iter().map(|_| Uuid::now_v7()).collect() };
        // Of whoever came first, if the group is new.
        let first = &poll.waiters[unserved[0]].args;
        let (mode, since) = match first.subscription {
            Subscription::All => ("all", None),
            Subscription::New if first.queue_was_missing.load(Ordering::Relaxed) => ("all", None),
            Subscription::New => ("new", None),
            Subscription::Since(time) => ("timestamp", Some(time)),
        };
        let query = sqlx::query(&self.claim)
            .bind(queue)
            .bind(partition)
            .bind(&poll.key.group)
            .bind(mode)
            .bind(since)
            .bind(first.waiting_since.elapsed().as_millis() as i64)
            .bind(&unanswered.leases)
            .bind(waiters().map(|args| args.lease.map(|lease| lease.as_millis() as i64)).collect::<Vec<_>>())
            .bind(waiters().map(|args| args.batch as i32).collect::<Vec<_>>())
            .bind(waiters().map(|args| args.partitions as i32).collect::<Vec<_>>())
            .bind((ALL_ANSWERS_BYTES / unserved.len().max(1)).clamp(ANSWER_BYTES_MIN, ANSWER_BYTES_MAX) as i32)
            .bind(bound_us);
        let rows = query.fetch_all(&mut *conn).await?;
        if rows.is_empty() {
            waiters().for_each(|args| args.queue_was_missing.store(true, Ordering::Relaxed));
        }
        let mut gaps = Vec::new();
        for row in &rows {
            let Some(waiter) = row.try_get::<Option<i32>, _>("waiter")?.map(|waiter| waiter as usize) else {
                progress.due(row.try_get("next_due_ms")?);
                progress.now_us = row.try_get("now_us")?;
                let dead_lettered: Option<i32> = row.try_get("dead_lettered")?;
                self.counters.dead_lettered(queue, &poll.key.group, dead_lettered.unwrap_or_default().max(0) as usize);
                continue;
            };
            let due_us: i64 = row.try_get("due_us")?;
            progress.oldest_us = Some(progress.oldest_us.map_or(due_us, |oldest| oldest.min(due_us)));
            let (index, lease_id) = (unserved[waiter], unanswered.leases[waiter]);
            let lease = Duration::from_millis(row.try_get::<i64, _>("lease_ms")? as u64);
            let (leased, shortest) =
                progress.waiters[index].get_or_insert_with(|| (LeasedBatch { lease_id, messages: Vec::new() }, lease));
            *shortest = lease.min(*shortest);
            if self.read(row, queue, leased)? {
                gaps.push(lease_id);
            }
        }
        if !gaps.is_empty() {
            sqlx::query(&self.skip).bind(gaps).execute(conn).await?;
            // Where everything was deleted, what lies behind is due now.
            progress.due(Some(0.0));
        }
        progress.unanswered.leases.append(&mut unanswered.leases);
        Ok(progress.drop_empty())
    }

    /// Keeps in mind what is given out.
    fn remember<'a>(&self, group: &str, given: impl Iterator<Item = &'a LeasedBatch>) {
        let group: Arc<str> = group.into();
        for leased in given {
            for part in leased.messages.chunk_by(|one, other| one.partition_id == other.partition_id) {
                let Some(partition) = self.ids.number(part[0].partition_id) else { continue };
                let hashes = part.iter().map(|message| hash(&message.transaction_id)).collect();
                let mut lease_cache = self.lease_cache.lock();
                lease_cache.add(leased.lease_id, partition, &group, hashes);
            }
        }
    }

    async fn release(&self, conn: &mut PgConnection, leases: &[Uuid]) -> reveille_pg::Result<()> {
        sqlx::query(&self.release).bind(leases).execute(conn).await?;
        Ok(())
    }

    /// Adds the messages of a segment to a batch. Whether deleted ones lie in front of the first of its partition.
    fn read(&self, row: &PgRow, queue: &str, batch: &mut LeasedBatch) -> reveille_pg::Result<bool> {
        let number: i64 = row.try_get("partition_id")?;
        let first: i64 = row.try_get("first_offset")?;
        let partition_id = self.ids.partition(number);
        let before = batch.messages.last().filter(|last| last.partition_id == partition_id).map(|last| last.retries);
        let partition: &str = row.try_get("partition_name")?;
        let (created_at, encrypted) = (row.try_get("created_at")?, row.try_get("encrypted")?);
        let ids: Vec<Option<Uuid>> = row.try_get("ids")?;
        let gap = before.is_none() && ids.first() == Some(&None);
        let retries = match before {
            Some(retries) => retries,
            // What failed is gone.
            None if gap => 0,
            None => row.try_get::<i32, _>("retries")? as u32,
        };
        let transactions: Vec<String> = row.try_get("transaction_ids")?;
        let mut traces: Vec<Option<String>> = row.try_get::<Option<_>, _>("trace_ids")?.unwrap_or_default();
        let mut producers: Vec<Option<String>> = row.try_get::<Option<_>, _>("producers")?.unwrap_or_default();
        let payloads: Vec<Vec<u8>> = row.try_get("payloads")?;
        for (at, ((id, transaction_id), bytes)) in ids.into_iter().zip(transactions).zip(payloads).enumerate() {
            let Some(id) = id else { continue };
            batch.messages.push(Message {
                id,
                transaction_id,
                trace_id: traces.get_mut(at).and_then(Option::take),
                payload: Stored { encrypted, bytes },
                producer: producers.get_mut(at).and_then(Option::take),
                created_at,
                queue: queue.to_owned(),
                partition: partition.to_owned(),
                partition_id,
                offset: first + at as i64,
                retries,
            });
        }
        Ok(gap)
    }
}
