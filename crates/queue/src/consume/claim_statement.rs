//! The statement of a claim: its arguments, its rows, and what a poll has leased with it so far.

use std::sync::atomic::Ordering;
use std::time::Duration;

use reveille_wake::{PollRequest, Scan, SentClaims};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Postgres, Row};
use uuid::Uuid;

use crate::consume::claim::{Args, Key, LeasedBatch, Pops};
use crate::consume::pop::Subscription;
use crate::message::{Message, Stored};

/// Bytes of the messages of one pop, because client and server hold them in memory; fewer if a poll serves many
/// waiters. A single message may be larger.
pub(crate) const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Bytes that each waiter may get, however many a poll serves: a segment.
const ANSWER_BYTES_MIN: usize = 256 << 10;
/// Bytes that all waiters of a poll get together, unless [`ANSWER_BYTES_MIN`] makes it more.
const ALL_ANSWERS_BYTES: usize = 64 << 20;

/// What a poll has leased so far.
pub(super) struct Progress {
    /// Its claims. If the poll fails, the next one releases their leases.
    pub(super) sent: Vec<SentClaims<Uuid>>,
    /// The batch and the lease time of each waiter.
    pub(super) waiters: Vec<Option<(LeasedBatch, Duration)>>,
    pub(super) next_due_ms: Option<f64>,
    /// The earliest due time of the leased cursors, by the database's clock.
    pub(super) oldest_us: Option<i64>,
    /// The database's clock, if nothing else is due.
    pub(super) now_us: Option<i64>,
}

impl Progress {
    pub(super) fn new(poll: &PollRequest<Key, Args>) -> Progress {
        let waiters = poll.waiters.iter().map(|_| None).collect();
        Progress { sent: Vec::new(), waiters, next_due_ms: None, oldest_us: None, now_us: None }
    }

    /// Removes batches without messages. Whether there were any.
    pub(super) fn drop_empty(&mut self) -> bool {
        let empty = |slot: &mut Option<(LeasedBatch, Duration)>| slot.take_if(|(leased, _)| leased.messages.is_empty());
        self.waiters.iter_mut().filter_map(empty).count() > 0
    }

    pub(super) fn due(&mut self, ms: Option<f64>) {
        self.next_due_ms = self.next_due_ms.into_iter().chain(ms).reduce(f64::min);
    }
}

/// One statement that claims.
pub(super) struct Sent<'a> {
    pub(super) queue: &'a str,
    pub(super) partition: Option<&'a str>,
    /// The waiters that it is for, and a lease id for each.
    pub(super) unserved: Vec<usize>,
    pub(super) lease_ids: Vec<Uuid>,
    pub(super) bound_us: Option<i64>,
}

/// A claim that the statement of a push makes.
pub(crate) struct ClaimInWrite<'a> {
    pub(super) claim: Sent<'a>,
    pub(super) scan: Scan,
}

impl Sent<'_> {
    pub(super) fn bind<'q>(
        &self,
        query: Query<'q, Postgres, PgArguments>,
        poll: &'q PollRequest<Key, Args>,
    ) -> Query<'q, Postgres, PgArguments> {
        let waiters = || self.unserved.iter().map(|index| &*poll.waiters[*index].args);
        // If the consumer group is new, it begins where its first waiter asks for.
        let first = &poll.waiters[self.unserved[0]].args;
        let (mode, since) = match first.subscription {
            Subscription::All => ("all", None),
            Subscription::New if first.queue_was_missing.load(Ordering::Relaxed) => ("all", None),
            Subscription::New => ("new", None),
            Subscription::Since(time) => ("timestamp", Some(time)),
        };
        query
            .bind(self.queue.to_owned())
            .bind(self.partition.map(str::to_owned))
            .bind(&poll.key.group)
            .bind(mode)
            .bind(since)
            .bind(first.waiting_since.elapsed().as_millis() as i64)
            .bind(self.lease_ids.clone())
            .bind(waiters().map(|args| args.lease.map(|lease| lease.as_millis() as i64)).collect::<Vec<_>>())
            .bind(waiters().map(|args| args.batch as i32).collect::<Vec<_>>())
            .bind(waiters().map(|args| args.partitions as i32).collect::<Vec<_>>())
            .bind((ALL_ANSWERS_BYTES / self.unserved.len().max(1)).clamp(ANSWER_BYTES_MIN, ANSWER_BYTES_MAX) as i32)
            .bind(self.bound_us)
    }
}

impl Pops {
    /// Adds the messages of a segment to a batch. Whether deleted messages precede the first of its partition.
    pub(super) fn add_segment(&self, row: &PgRow, queue: &str, batch: &mut LeasedBatch) -> reveille_pg::Result<bool> {
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
            // The message that failed is deleted.
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
