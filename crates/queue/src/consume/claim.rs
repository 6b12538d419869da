//! Claiming partitions for pops.
//!
//! Waiters with the same source and consumer group are in one group of the engine: one claim serves all of them. They
//! differ in batch size and lease time, so the claim takes one row of arguments per waiter. Each gets partitions and a
//! lease of its own: the messages of one partition never go to two waiters.
//!
//! A claim whose answer was lost has leased partitions that are never acked. This process chose the lease ids, so the
//! next poll releases them first ([`UnansweredClaims`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use reveille_pg::{Schema, Sql};
use reveille_wake::{
    AttachedPoll, Channel, Claim, PollRequest, PollResult, Scan, ScanBounds, SentClaims, Topic, UnansweredClaims,
    topic_key,
};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};
use tokio::time::Instant;
use uuid::Uuid;

use crate::admin::message_counters::MessageCounters;
use crate::consume::claim_statement::{ClaimInWrite, Progress, Sent};
use crate::consume::lease_cache::LeaseCache;
use crate::consume::pop::{Source, Subscription};
use crate::id::Ids;
use crate::message::{Message, Stored};
use crate::name::hash;

/// How often a poll claims again behind deleted messages; the next poll continues.
const GAPS_MAX: usize = 10;

/// The key of a group of waiters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) source: Source,
    pub(crate) group: String,
}

/// The arguments of one waiter.
#[derive(Debug)]
pub(crate) struct Args {
    pub(crate) batch: usize,
    pub(crate) partitions: usize,
    pub(crate) lease: Option<Duration>,
    pub(crate) subscription: Subscription,
    pub(crate) waiting_since: Instant,
    /// The queue did not exist at the first poll, so everything in it is new.
    pub(crate) queue_was_missing: AtomicBool,
}

/// The messages that a claim leased for one waiter.
#[derive(Debug)]
pub(crate) struct LeasedBatch {
    pub(crate) lease_id: Uuid,
    pub(crate) messages: Vec<Message<Stored>>,
}

impl LeasedBatch {
    /// The number of partitions that its messages are from.
    pub(crate) fn partitions(&self) -> usize {
        self.messages.chunk_by(|one, other| one.partition_id == other.partition_id).count()
    }
}

/// Claims partitions.
pub(crate) struct Pops {
    channel: Channel,
    pub(super) ids: Ids,
    unanswered: UnansweredClaims<Uuid>,
    lease_cache: Arc<Mutex<LeaseCache>>,
    counters: Arc<MessageCounters>,
    /// For sources without a partition.
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
            unanswered: UnansweredClaims::new(),
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
}

impl Claim for Pops {
    type Key = Key;
    type Args = Args;
    type Item = LeasedBatch;

    fn describe(&self, key: &Key) -> String {
        let group =
            if key.group.is_empty() { "no consumer group".to_owned() } else { format!("consumer group {}", key.group) };
        match key.source.parts() {
            [Some(queue), Some(partition), ..] => format!("partition {partition} of queue {queue}, {group}"),
            [Some(queue), None, ..] => format!("queue {queue}, {group}"),
            [_, _, namespace, task] => {
                let part = |what: &str, name: Option<&str>| name.map(|name| format!("{what} {name}, "));
                let of = part("namespace", namespace).into_iter().chain(part("task", task)).collect::<String>();
                format!("queues of {of}{group}")
            }
        }
    }

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
        let lost = self.unanswered.take();
        if !lost.names().is_empty() {
            self.release(conn, lost.names()).await?;
            lost.answered();
        }
        let mut progress = Progress::new(poll);
        match poll.key.source.parts() {
            [Some(queue), None, ..] => {
                let reading = self.bounds.begin(&poll.key, Instant::now());
                self.claim_in_queue(conn, poll, (queue, None), reading.bound_us, &mut progress).await?;
                self.end_scan(&poll.key, reading, &mut progress);
            }
            [Some(queue), partition, ..] => {
                self.claim_in_queue(conn, poll, (queue, partition), None, &mut progress).await?
            }
            [_, _, namespace, task] => {
                let query = sqlx::query(&self.due_queues).bind(namespace).bind(task).bind(&poll.key.group);
                for row in query.fetch_all(&mut *conn).await? {
                    let due_ms: f64 = row.try_get(1)?;
                    let served = progress.waiters.iter().all(Option::is_some);
                    if due_ms > 0.0 || served {
                        progress.due(Some(due_ms));
                        continue;
                    }
                    match self.claim_in_queue(conn, poll, (row.try_get(0)?, None), None, &mut progress).await {
                        // The waiters get what other queues have given.
                        Err(_) if progress.waiters.iter().any(Option::is_some) => {
                            progress.due(Some(0.0));
                            break;
                        }
                        claimed => claimed?,
                    }
                }
            }
        }
        Ok(self.result(poll, progress))
    }

    /// A source without a queue first asks which queues have something due.
    fn attaches(&self, key: &Key) -> bool {
        key.source.parts()[0].is_some()
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
    /// Claims in one queue, for the waiters that have nothing yet. If a claim finds only deleted messages, the next one
    /// continues behind them.
    async fn claim_in_queue(
        &self,
        conn: &mut PgConnection,
        poll: &PollRequest<Key, Args>,
        source: (&str, Option<&str>),
        bound_us: Option<i64>,
        progress: &mut Progress,
    ) -> reveille_pg::Result<()> {
        for _ in 0..GAPS_MAX {
            if !self.claim_once(conn, poll, source, bound_us, progress).await? {
                return Ok(());
            }
        }
        progress.due(Some(0.0));
        Ok(())
    }

    /// Whether a batch had only deleted messages.
    async fn claim_once(
        &self,
        conn: &mut PgConnection,
        poll: &PollRequest<Key, Args>,
        (queue, partition): (&str, Option<&str>),
        bound_us: Option<i64>,
        progress: &mut Progress,
    ) -> reveille_pg::Result<bool> {
        let unserved: Vec<usize> =
            (0..poll.waiters.len()).filter(|waiter| progress.waiters[*waiter].is_none()).collect();
        let sent = self.unanswered.sent(unserved.iter().map(|_| Uuid::now_v7()));
        let claim = Sent { queue, partition, unserved, lease_ids: sent.names().to_vec(), bound_us };
        let rows = claim.bind(sqlx::query(&self.claim), poll).fetch_all(&mut *conn).await?;
        progress.sent.push(sent);
        self.read(conn, poll, claim, &rows, progress).await
    }

    /// Reads the rows of a claim. Whether a batch had only deleted messages.
    async fn read(
        &self,
        conn: &mut PgConnection,
        poll: &PollRequest<Key, Args>,
        Sent { queue, unserved, lease_ids, .. }: Sent<'_>,
        rows: &[PgRow],
        progress: &mut Progress,
    ) -> reveille_pg::Result<bool> {
        if rows.is_empty() {
            let waiters = unserved.iter().map(|index| &poll.waiters[*index].args);
            waiters.for_each(|args| args.queue_was_missing.store(true, Ordering::Relaxed));
        }
        let mut gaps = Vec::new();
        // Waiters get their batches when the whole claim has succeeded: the next poll releases the leases of a failed one.
        let mut served: Vec<Option<(LeasedBatch, Duration)>> = unserved.iter().map(|_| None).collect();
        for row in rows {
            let Some(waiter) = row.try_get::<Option<i32>, _>("waiter")?.map(|waiter| waiter as usize) else {
                progress.due(row.try_get("next_due_ms")?);
                progress.now_us = row.try_get("now_us")?;
                let dead_lettered: Option<i32> = row.try_get("dead_lettered")?;
                self.counters.dead_lettered(queue, &poll.key.group, dead_lettered.unwrap_or_default().max(0) as usize);
                continue;
            };
            let due_us: i64 = row.try_get("due_us")?;
            progress.oldest_us = Some(progress.oldest_us.map_or(due_us, |oldest| oldest.min(due_us)));
            let lease_id = lease_ids[waiter];
            let lease = Duration::from_millis(row.try_get::<i64, _>("lease_ms")? as u64);
            let (leased, shortest) =
                served[waiter].get_or_insert_with(|| (LeasedBatch { lease_id, messages: Vec::new() }, lease));
            *shortest = lease.min(*shortest);
            if self.add_segment(row, queue, leased)? {
                gaps.push(lease_id);
            }
        }
        if !gaps.is_empty() {
            sqlx::query(&self.skip).bind(gaps).execute(conn).await?;
            // Messages behind the deleted ones are due now.
            progress.due(Some(0.0));
        }
        for (waiter, slot) in unserved.into_iter().zip(served) {
            progress.waiters[waiter] = slot;
        }
        Ok(progress.drop_empty())
    }

    /// Binds the claim to the statement of a push.
    pub(crate) fn bind_in_write<'q>(
        &self,
        query: Query<'q, Postgres, PgArguments>,
        poll: &'q AttachedPoll<Pops>,
    ) -> (Query<'q, Postgres, PgArguments>, ClaimInWrite<'q>) {
        let request = poll.request();
        let [queue, partition, ..] = request.key.source.parts();
        let scan = self.bounds.begin_in_write(&request.key, Instant::now());
        let sent = self.unanswered.sent(request.waiters.iter().map(|_| Uuid::now_v7()));
        let claim = Sent {
            queue: queue.unwrap_or_default(),
            partition,
            unserved: (0..request.waiters.len()).collect(),
            lease_ids: sent.names().to_vec(),
            bound_us: scan.bound_us.filter(|_| partition.is_none()),
        };
        poll.keep_sent(sent);
        (claim.bind(query, request), ClaimInWrite { claim, scan })
    }

    /// Reads what the statement of a push has claimed. `complete`: it has appended everything that the push appends.
    pub(crate) async fn claimed_in_write(
        &self,
        conn: &mut PgConnection,
        poll: &PollRequest<Key, Args>,
        ClaimInWrite { claim, scan }: ClaimInWrite<'_>,
        rows: &[PgRow],
        complete: bool,
    ) -> reveille_pg::Result<PollResult<LeasedBatch>> {
        let mut progress = Progress::new(poll);
        let is_any = claim.partition.is_none();
        // What follows deleted messages, or what the push appends later, is found by the next poll.
        if self.read(conn, poll, claim, rows, &mut progress).await? || !complete {
            progress.due(Some(0.0));
        }
        if is_any {
            self.end_scan(&poll.key, scan, &mut progress);
        }
        Ok(self.result(poll, progress))
    }

    fn end_scan(&self, key: &Key, scan: Scan, progress: &mut Progress) {
        let sweep = self.bounds.end(key, scan, progress.oldest_us, progress.now_us, Instant::now());
        progress.due(sweep.map(|sweep| sweep.as_secs_f64() * 1_000.0));
    }

    fn result(&self, poll: &PollRequest<Key, Args>, progress: Progress) -> PollResult<LeasedBatch> {
        self.remember(&poll.key.group, progress.waiters.iter().flatten().map(|(leased, _)| leased));
        let mut polled = PollResult::next_due_ms(progress.next_due_ms);
        progress.sent.into_iter().for_each(SentClaims::answered);
        for (waiter, slot) in progress.waiters.into_iter().enumerate() {
            if let Some((leased, lease)) = slot {
                polled.give(waiter, leased, Some(lease));
            }
        }
        polled
    }

    /// Adds leased messages to the lease cache.
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
}
