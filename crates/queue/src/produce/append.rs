//! Appending messages: one statement for all pending pushes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use reveille_pg::{Database, Schema, Sql};
use reveille_wake::{AttachedPoll, BatchResult, BatchedWrite, Channel, Consumer, PollResult, WakeUp, WriteBatch};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::admin::message_counters::MessageCounters;
use crate::consume::claim::{LeasedBatch, Pops};
use crate::produce::balance::Balance;
use crate::produce::dedup_cache::{DedupCache, HashDelta};
use crate::produce::partition_batch::{BatchProblem, DedupResult, PartitionBatch};
use crate::produce::push_write::{PushOutcome, PushWrite, StoredMessage};
use crate::storage::statements::unknown_word;

/// Attempts to append while other processes append the same hashes; each attempt knows more of them.
const ATTEMPTS_MAX: usize = 10;

/// Hashes that a transaction has read and stored, to be cached when it has committed.
#[derive(Default)]
pub(crate) struct PendingHashes {
    /// By partition.
    pub(crate) deltas: HashMap<i64, HashDelta>,
    /// The number of stored messages by queue.
    stored: HashMap<String, usize>,
}

/// Deduplicates and appends messages.
pub(crate) struct Push {
    channel: Channel,
    dedup_cache: Arc<Mutex<DedupCache>>,
    balance: Arc<Balance>,
    counters: Arc<MessageCounters>,
    pops: Consumer<Pops>,
    /// The statement of a batch commits by itself. Through a pooler the commit follows, and may fail.
    commits: bool,
    push: Sql,
    and_claim: Sql,
    hashes: Sql,
    originals: Sql,
}

/// What the statements of a push have done besides appending.
#[derive(Default)]
struct Appended {
    /// The backend, if a statement was sent.
    backend: Option<i32>,
    /// What was claimed for waiters.
    claimed: Option<(AttachedPoll<Pops>, PollResult<LeasedBatch>)>,
}

impl Push {
    pub(crate) fn new(
        db: &Database,
        schema: &Schema,
        channel: Channel,
        dedup_cache: Arc<Mutex<DedupCache>>,
        balance: Arc<Balance>,
        counters: Arc<MessageCounters>,
        pops: Consumer<Pops>,
    ) -> Push {
        Push {
            pops,
            channel,
            dedup_cache,
            balance,
            counters,
            commits: !db.has_pooler(),
            push: schema.sql(reveille_pg::statement!("push")),
            and_claim: schema.sql(reveille_pg::statement!("push_and_claim")),
            hashes: schema.sql(reveille_pg::statement!("hashes")),
            originals: schema.sql(reveille_pg::statement!("originals")),
        }
    }

    fn dedup_cache(&self) -> MutexGuard<'_, DedupCache> {
        self.dedup_cache.lock()
    }

    /// Appends inside a transaction. Uses the hashes that it has read so far and adds to them; the caller passes them
    /// to [`learn`](Self::learn) after the commit, and not before.
    pub(crate) async fn append_uncommitted(
        &self,
        conn: &mut PgConnection,
        writes: &[&PushWrite],
        wake_ups: &(Vec<String>, Vec<String>),
        pending: &mut PendingHashes,
    ) -> reveille_pg::Result<Vec<PushOutcome>> {
        let (channels, payloads) = wake_ups;
        let query = |sql: &Sql| sqlx::query(sql).bind(None::<Uuid>).bind(channels).bind(payloads).bind(true);
        let mut batches = PartitionBatch::of(writes);
        batches
            .iter_mut()
            .for_each(|batch| batch.delta = pending.deltas.remove(&batch.partition.id).unwrap_or_default());
        self.append(conn, &mut batches, query, true, None).await?;
        for batch in batches.iter_mut().filter(|batch| batch.problem.is_none()) {
            pending.deltas.insert(batch.partition.id, std::mem::take(&mut batch.delta));
        }
        let outcomes: Vec<PushOutcome> =
            outcomes_of(batches).into_iter().map(|outcome| outcome.unwrap_or(PushOutcome::Gone)).collect();
        for (write, outcome) in writes.iter().zip(&outcomes) {
            *pending.stored.entry(write.partition.queue.clone()).or_default() += stored(write, outcome);
        }
        Ok(outcomes)
    }

    /// Adds the hashes of a committed transaction to the cache.
    pub(crate) fn learn(&self, pending: PendingHashes) {
        pending.stored.iter().for_each(|(queue, messages)| self.counters.pushed(queue, *messages));
        let mut dedup_cache = self.dedup_cache();
        pending.deltas.into_iter().for_each(|(partition, delta)| dedup_cache.learn(partition, delta));
    }

    /// Reads hashes that are missing in the cache, before a transaction whose commit is not observed. `conn` is not the
    /// connection of that transaction.
    pub(crate) async fn catch_up(
        &self,
        conn: &mut PgConnection,
        behind: Vec<(i64, Option<i64>)>,
    ) -> reveille_pg::Result<()> {
        let deltas = self.read(conn, behind).await?;
        self.learn(PendingHashes { deltas, ..PendingHashes::default() });
        Ok(())
    }

    /// Appends the messages of the batches. `certain`: as in [`PartitionBatch::append`]. `write`: the batch whose statement
    /// may claim for waiters.
    async fn append<'q>(
        &self,
        conn: &mut PgConnection,
        batches: &mut [PartitionBatch<'q>],
        query: impl Fn(&Sql) -> Query<'q, Postgres, PgArguments>,
        certain: bool,
        mut write: Option<&WriteBatch<'_, PushWrite>>,
    ) -> reveille_pg::Result<Appended> {
        let mut appended = Appended::default();
        for _ in 0..ATTEMPTS_MAX {
            self.prepare(conn, batches).await?;
            let mut sent: Vec<&mut PartitionBatch<'_>> = batches.iter_mut().filter(|batch| batch.is_eager()).collect();
            if sent.is_empty() {
                break;
            }
            let poll = write.take().and_then(|write| write.attach(&self.pops));
            let (rows, claim) = match &poll {
                None => (bind_batches(query(&self.push), &sent).fetch_all(&mut *conn).await?, None),
                Some(poll) => {
                    let query = bind_batches(query(&self.and_claim), &sent);
                    let (query, claim) = poll.claim().bind_in_write(query, poll);
                    (query.fetch_all(&mut *conn).await?, Some(claim))
                }
            };
            let is_push = |row: &PgRow| row.try_get::<Option<i32>, _>("number").is_ok_and(|number| number.is_some());
            let (rows, claim_rows): (Vec<PgRow>, Vec<PgRow>) = rows.into_iter().partition(is_push);
            let mut complete = true;
            if rows.is_empty() {
                sent.iter_mut().for_each(|batch| batch.problem = Some(BatchProblem::InMaintenance));
            }
            for row in rows {
                let number: i32 = row.try_get("number")?;
                let Some(batch) = sent.get_mut(number as usize - 1) else { continue };
                if let Some(unseen) = row.try_get::<Option<Vec<Option<i64>>>, _>("new_hashes")? {
                    batch.delta.skip_to(row.try_get("new_hashes_from")?);
                    batch.delta.extend(unseen);
                }
                batch.delta.first = row.try_get::<Option<i64>, _>("retained_from")?.unwrap_or_default();
                match row.try_get("status")? {
                    "appended" => batch.append(row.try_get("appended_from")?, certain),
                    "stale" => complete = false,
                    "locked" => batch.problem = Some(BatchProblem::Locked),
                    "full" => batch.problem = Some(BatchProblem::Full),
                    "gone" => batch.problem = Some(BatchProblem::Gone),
                    unknown => return Err(unknown_word("push status", unknown).into()),
                }
                appended.backend = row.try_get("backend")?;
            }
            if let Some((attached, claim)) = poll.as_ref().zip(claim) {
                let (request, claims) = (attached.request(), attached.claim());
                let claimed = claims.claimed_in_write(conn, request, claim, &claim_rows, complete).await;
                // The messages are appended, whatever became of the claim.
                let claimed =
                    claimed.inspect_err(|error| tracing::warn!(%error, "cannot read what a push has claimed"));
                appended.claimed = poll.zip(claimed.ok());
            }
        }
        Ok(appended)
    }

    /// Decides which messages of the batches are new.
    async fn prepare(&self, conn: &mut PgConnection, batches: &mut [PartitionBatch<'_>]) -> reveille_pg::Result<()> {
        let possible_duplicates = loop {
            self.read_cold(conn, batches).await?;
            if let Some(possible_duplicates) = self.mark_new_messages(batches) {
                break possible_duplicates;
            }
        };
        if possible_duplicates.is_empty() {
            return Ok(());
        }
        let partitions: Vec<i64> =
            possible_duplicates.iter().map(|possible| batches[possible.batch].partition.id).collect();
        let offsets: Vec<i64> = possible_duplicates.iter().map(|possible| possible.offset).collect();
        let rows = sqlx::query(&self.originals).bind(partitions).bind(offsets).fetch_all(conn).await?;
        let mut originals: HashMap<usize, (Uuid, String)> = HashMap::new();
        for row in rows {
            let number: i64 = row.try_get(0)?;
            originals.insert(number as usize - 1, (row.try_get(1)?, row.try_get(2)?));
        }
        for (number, PossibleDuplicate { batch, index, .. }) in possible_duplicates.into_iter().enumerate() {
            let batch = &mut batches[batch];
            let message = batch.messages[index];
            match originals.remove(&number) {
                // Stored by an earlier attempt whose answer was lost.
                Some((id, _)) if id == message.id => batch.results[index] = DedupResult::Stored,
                Some((id, transaction)) if transaction == message.transaction_id => {
                    batch.results[index] = DedupResult::DuplicateOf(id);
                }
                // The message at that offset was deleted, or has another transaction id. The push records the new
                // offset of the hash.
                _ => batch.new_messages.push(index),
            }
        }
        batches.iter_mut().for_each(|batch| batch.new_messages.sort_unstable());
        Ok(())
    }

    /// Reads all hashes of partitions that are not in the cache.
    async fn read_cold(&self, conn: &mut PgConnection, batches: &mut [PartitionBatch<'_>]) -> reveille_pg::Result<()> {
        let mut cold: Vec<&mut PartitionBatch<'_>> = Vec::new();
        {
            let mut dedup_cache = self.dedup_cache();
            for batch in batches.iter_mut().filter(|batch| batch.is_open() && batch.delta.from.is_none()) {
                match dedup_cache.touch(batch.partition.id) {
                    Some(end) => batch.delta = HashDelta { begins: false, ..HashDelta::from(end) },
                    None => cold.push(batch),
                }
            }
        }
        if cold.is_empty() {
            return Ok(());
        }
        let mut read = self.read(conn, cold.iter().map(|batch| (batch.partition.id, None)).collect()).await?;
        for batch in cold {
            match read.remove(&batch.partition.id) {
                Some(delta) => batch.delta = delta,
                // The partition does not exist any more.
                None => batch.problem = Some(BatchProblem::Gone),
            }
        }
        Ok(())
    }

    /// The hashes of partitions: from the offset up to which they are known, or all.
    async fn read(
        &self,
        conn: &mut PgConnection,
        partitions: Vec<(i64, Option<i64>)>,
    ) -> reveille_pg::Result<HashMap<i64, HashDelta>> {
        let known: HashMap<i64, Option<i64>> = partitions.iter().copied().collect();
        let (ids, froms): (Vec<i64>, Vec<Option<i64>>) = partitions.into_iter().unzip();
        let froms: Vec<i64> = froms.into_iter().map(Option::unwrap_or_default).collect();
        let mut read: HashMap<i64, HashDelta> = HashMap::new();
        let window = self.dedup_cache().window();
        for row in sqlx::query(&self.hashes).bind(ids).bind(froms).bind(window).fetch_all(conn).await? {
            let (id, first): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
            let delta = read.entry(id).or_insert_with(|| {
                let from = known.get(&id).copied().flatten();
                HashDelta { begins: from.is_none(), first, ..HashDelta::from(from.unwrap_or(first)) }
            });
            if let Some(hashes) = row.try_get::<Option<Vec<Option<i64>>>, _>(3)? {
                delta.skip_to(row.try_get(2)?);
                delta.extend(hashes);
            }
        }
        Ok(read)
    }

    /// Marks messages without a known hash as new, and returns the others. `None`: the cache has forgotten a partition
    /// since its hashes were read, to make room or because they were wrong.
    fn mark_new_messages(&self, batches: &mut [PartitionBatch<'_>]) -> Option<Vec<PossibleDuplicate>> {
        let mut possible_duplicates = Vec::new();
        let mut is_forgotten = false;
        let dedup_cache = self.dedup_cache();
        for (at, batch) in batches.iter_mut().enumerate().filter(|(_, batch)| batch.is_open()) {
            let id = batch.partition.id;
            if !batch.delta.begins && !batch.delta.from.is_some_and(|from| dedup_cache.covers(id, from)) {
                batch.delta = HashDelta::default();
                is_forgotten = true;
                continue;
            }
            batch.new_messages.clear();
            let mut own: HashMap<&str, usize> = HashMap::new();
            for (index, message) in batch.messages.iter().enumerate() {
                if let Some(first) = own.get(message.transaction_id.as_str()) {
                    batch.results[index] = DedupResult::SameAs(*first);
                    continue;
                }
                own.insert(&message.transaction_id, index);
                let known = || dedup_cache.offset(id, message.hash);
                match batch.delta.offsets.get(&message.hash).copied().or_else(known) {
                    Some(offset) => possible_duplicates.push(PossibleDuplicate { batch: at, index, offset }),
                    None => batch.new_messages.push(index),
                }
                batch.results[index] = DedupResult::New;
            }
        }
        (!is_forgotten).then_some(possible_duplicates)
    }
}

/// A message whose hash is known at an offset.
struct PossibleDuplicate {
    batch: usize,
    index: usize,
    offset: i64,
}

/// The outcome of each write. `None`: another transaction has locked the partition.
fn outcomes_of(batches: Vec<PartitionBatch<'_>>) -> Vec<Option<PushOutcome>> {
    let mut outcomes = Vec::new();
    batches.into_iter().for_each(|batch| batch.outcomes(&mut outcomes));
    outcomes
}

/// The number of messages of a write that were stored, by this attempt or an earlier one.
fn stored(write: &PushWrite, outcome: &PushOutcome) -> usize {
    match outcome {
        PushOutcome::Stored(originals) => originals.iter().filter(|original| original.is_none()).count(),
        PushOutcome::Full(stored) => {
            write.messages.iter().zip(stored).filter(|(message, stored)| **stored == Some(message.id)).count()
        }
        PushOutcome::InMaintenance | PushOutcome::Gone => 0,
    }
}

fn bind_batches<'q>(
    query: Query<'q, Postgres, PgArguments>,
    batches: &[&mut PartitionBatch<'q>],
) -> Query<'q, Postgres, PgArguments> {
    let new_messages =
        || batches.iter().flat_map(|batch| batch.new_messages.iter().map(|index| batch.messages[*index]));
    let (mut last_segments, mut segment_ends, mut messages) =
        (Vec::with_capacity(batches.len()), Vec::with_capacity(batches.len()), 0);
    for batch in batches {
        batch.split_into_segments(&mut messages, &mut segment_ends);
        last_segments.push(segment_ends.len() as i32);
    }
    query
        .bind(batches.iter().map(|batch| batch.partition.id).collect::<Vec<_>>())
        .bind(batches.iter().map(|batch| batch.delta.end).collect::<Vec<_>>())
        .bind(batches.iter().map(|batch| batch.partition.revision).collect::<Vec<_>>())
        .bind(last_segments)
        .bind(segment_ends)
        .bind(new_messages().map(|message| message.id).collect::<Vec<_>>())
        .bind(new_messages().map(|message| message.transaction_id.as_str()).collect::<Vec<_>>())
        .bind(new_messages().map(|message| message.hash).collect::<Vec<_>>())
        .bind(new_messages().map(|message| message.payload.as_slice()).collect::<Vec<_>>())
        .bind(new_messages().map(|message| message.trace_id.as_deref()).collect::<Vec<_>>())
        .bind(new_messages().map(|message| message.producer.as_deref()).collect::<Vec<_>>())
        .bind(batches.iter().all(|batch| batch.drains))
}

impl BatchedWrite for Push {
    type Write = PushWrite;
    type Key = i64;
    type Outcome = PushOutcome;
    // Sent again, it finds its own messages by their ids.
    const RECORDS_OUTCOMES: bool = false;

    fn key(&self, write: &PushWrite) -> i64 {
        write.partition.id
    }

    fn bytes(&self, write: &PushWrite) -> usize {
        write.messages.iter().map(StoredMessage::bytes).sum()
    }

    fn wake_ups(&self, write: &PushWrite, outcome: Option<&PushOutcome>) -> Vec<WakeUp> {
        let wake_ups = match outcome {
            None => true,
            // An earlier attempt may have stored messages without a wake-up.
            Some(outcome) => stored(write, outcome) > 0,
        };
        if wake_ups { vec![write.partition.pushed(&self.channel)] } else { Vec::new() }
    }

    async fn send(
        &self,
        conn: &mut PgConnection,
        batch: &WriteBatch<'_, PushWrite>,
    ) -> reveille_pg::Result<BatchResult<Self::Outcome>> {
        // A write that is sent alone waits for a lock and keeps no core busy.
        let pause = if batch.patient { Duration::ZERO } else { self.balance.begin_batch(Instant::now()) };
        if !pause.is_zero() {
            sleep(pause).await;
        }
        let began = Instant::now();
        let mut batches = PartitionBatch::of(&batch.writes);
        let messages = batches.iter().map(|batch| batch.messages.len()).sum();
        let query = |sql: &Sql| batch.query(sql);
        let Appended { backend, claimed } = self.append(conn, &mut batches, query, self.commits, Some(batch)).await?;
        self.balance.pushed(messages, began, Instant::now());
        {
            let mut dedup_cache = self.dedup_cache();
            batches
                .iter_mut()
                .for_each(|batch| dedup_cache.learn(batch.partition.id, std::mem::take(&mut batch.delta)));
        }
        let result = BatchResult::new(outcomes_of(batches), backend);
        Ok(match claimed {
            Some((poll, claimed)) => result.with_claims(poll, claimed),
            None => result,
        })
    }

    fn committed(&self, write: &PushWrite, outcome: &PushOutcome) {
        self.counters.pushed(&write.partition.queue, stored(write, outcome));
    }
}
