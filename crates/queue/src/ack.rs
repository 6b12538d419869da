//! Ending messages, or refusing them: one update per partition and consumer group.

mod counting;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::try_join_all;
use pg::{Schema, Sql};
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};
use uuid::Uuid;
use wake::{BatchResult, BatchedWrite, Channel, WakeUp, WriteBatch};

pub(crate) use self::counting::Ended;
use crate::balance::Balance;
use crate::error::{Error, Result};
use crate::held::Held;
use crate::id::PartitionId;
use crate::name::{check, hash};
use crate::place::Place;
use crate::queues::Queues;
use crate::tally::Tally;

/// What a consumer says of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AckStatus {
    /// It is done, and everything before it in its partition.
    #[default]
    Completed,
    /// It could not be done: it comes again until the queue's `retryLimit`, and goes to the dead letters then.
    Failed,
    /// It cannot be done: it goes to the dead letters at once.
    DeadLetter,
    /// It comes again, and nothing is charged.
    Retry,
}

impl AckStatus {
    fn letter(self) -> &'static str {
        match self {
            AckStatus::Completed => "c",
            AckStatus::Failed => "f",
            AckStatus::DeadLetter => "d",
            AckStatus::Retry => "r",
        }
    }
}

/// An ack of one message.
#[derive(Debug, Clone)]
pub struct Ack {
    /// Which message: its transaction id,
    pub transaction_id: String,
    /// and its partition.
    pub partition_id: PartitionId,
    /// What is said of it.
    pub status: AckStatus,
    /// Under which lease it was read. With it an ack that comes too late is refused; without it, it is not fenced.
    pub lease_id: Option<Uuid>,
    /// Whose consumer group; `None`: whose the lease is, or else the queue itself.
    pub group: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
}

impl Ack {
    /// Refuses what cannot be the name of anything.
    pub(crate) fn check(&self) -> Result<()> {
        check("transactionId", &self.transaction_id)?;
        self.group.as_deref().map_or(Ok(()), |group| check("consumerGroup", group))
    }
}

/// The answer to an ack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acked {
    /// Whether it counts, or why it does not.
    pub outcome: std::result::Result<(), AckRefusal>,
    /// Whether the message went to the dead letters.
    pub dead_lettered: bool,
    /// Whether the partition is free again for the group.
    pub lease_released: bool,
    /// The queue, if the partition exists.
    pub queue: Option<String>,
    /// The partition.
    pub partition: Option<String>,
}

/// Why an ack does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AckRefusal {
    /// Nothing is known under that id.
    #[error("there is no such partition")]
    NoPartition,
    /// Nobody has read for this group.
    #[error("the queue has no such consumer group")]
    NoGroup,
    /// It ran out, was ended, or never was. Others may have the messages: wait for their redelivery.
    #[error("the lease is over")]
    LeaseOver,
    /// An earlier message of the same partition was refused in the same call; this one comes again behind it.
    #[error("an earlier message of the partition failed; this one will be delivered again")]
    BehindFailure,
    /// It is not a message that this lease, or this group, can end.
    #[error("the message is not among those delivered")]
    NotDelivered,
}

impl Queues {
    /// Acks messages. Each has an honest answer of its own, in order.
    ///
    /// The acks of one partition, group and lease count together: the last completed message ends all before it, unless one of those failed in the same call. An ack that is
    /// sent again because its answer was lost counts again, and changes nothing, until the lease after it has ended too: from then on it is told that its lease is over.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what cannot be meant; else the database's, and then nothing may have been acked, or some.
    pub async fn ack(&self, acks: Vec<Ack>) -> Result<Vec<Acked>> {
        let inner = &self.inner;
        let writes = self.writes(None, &acks).await?;
        let writer = writes.flown.into_iter().map(|(write, places)| async {
            let fate = inner.acks.submit(write).await?;
            Ok::<_, Error>((fate, places))
        });
        let mut answers = writes.answers;
        for (fate, places) in try_join_all(writer).await? {
            fate.answer(&places, &mut answers);
        }
        Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(Acked::no_partition)).collect())
    }

    /// Acks inside the caller's own transaction: they count, and whoever can read on is woken, exactly if it commits.
    ///
    /// # Errors
    /// As [`ack`](Self::ack).
    pub async fn ack_in(&self, conn: &mut PgConnection, acks: &[Ack]) -> Result<Vec<Acked>> {
        Ok(self.ack_within(conn, acks).await?.0)
    }

    /// As [`ack_in`](Self::ack_in), for who commits the transaction: what is to be [counted](Acks::count) then comes with the answers.
    pub(crate) async fn ack_within(&self, conn: &mut PgConnection, acks: &[Ack]) -> Result<(Vec<Acked>, Vec<Ended>)> {
        let writes = self.writes(Some(&mut *conn), acks).await?;
        let batched_write = &self.inner.ack;
        let loads: Vec<&Write> = writes.flown.iter().map(|(write, _)| write).collect();
        let possible: Vec<WakeUp> = loads.iter().flat_map(|write| batched_write.wake_ups(write, None)).collect();
        let (channels, payloads) = wake::Wake::notifications(&possible);
        let query = sqlx::query(&batched_write.ack).bind(None::<Uuid>).bind(&channels).bind(&payloads).bind(true);
        let outcomes: Vec<Option<String>> = bound(query, &loads).fetch_one(conn).await?.try_get(0)?;
        let (mut answers, mut ended) = (writes.answers, Vec::with_capacity(writes.flown.len()));
        for ((write, places), outcome) in writes.flown.into_iter().zip(outcomes) {
            let fate = batched_write.fate(&write, &outcome.unwrap_or_default());
            fate.answer(&places, &mut answers);
            ended.push(Ended { write, fate });
        }
        Ok((answers.into_iter().map(|answer| answer.unwrap_or_else(Acked::no_partition)).collect(), ended))
    }

    /// The acks by partition, group and lease, with the places of each in the request.
    async fn writes(&self, conn: Option<&mut PgConnection>, acks: &[Ack]) -> Result<Members> {
        acks.iter().try_for_each(Ack::check)?;
        let number = |ack: &Ack| self.inner.ids.number(ack.partition_id);
        let numbers: BTreeSet<i64> = acks.iter().filter_map(number).collect();
        let places = self.inner.locate(conn, numbers).await?;
        let mut flown: Vec<(Write, Vec<usize>)> = Vec::new();
        let mut known: HashMap<(i64, Option<&str>, Option<Uuid>), usize> = HashMap::new();
        for (index, ack) in acks.iter().enumerate() {
            let Some(place) = number(ack).and_then(|number| places.get(&number)) else { continue };
            // A lease knows whose it is.
            let key = (place.id, ack.group.as_deref().filter(|_| ack.lease_id.is_none()), ack.lease_id);
            let at = *known.entry(key).or_insert_with(|| {
                let (group, lease) = (ack.group.clone(), ack.lease_id);
                flown.push((Write { place: place.clone(), group, lease, said: Vec::new() }, Vec::new()));
                flown.len() - 1
            });
            let (write, indexes) = &mut flown[at];
            write.group = write.group.take().or_else(|| ack.group.clone());
            // What PostgreSQL cannot store of an explanation is left out of it.
            let error = ack.error.as_ref().map(|error| error.replace('\0', "\u{fffd}"));
            write.said.push(Said { hash: hash(&ack.transaction_id), status: ack.status, error });
            indexes.push(index);
        }
        flown.sort_by_key(|(write, _)| write.place.id);
        Ok(Members { flown, answers: acks.iter().map(|_| None).collect() })
    }
}

struct Members {
    flown: Vec<(Write, Vec<usize>)>,
    answers: Vec<Option<Acked>>,
}

impl Acked {
    fn no_partition() -> Acked {
        let outcome = Err(AckRefusal::NoPartition);
        Acked { outcome, dead_lettered: false, lease_released: false, queue: None, partition: None }
    }
}

/// What is said of messages of one partition, group and lease.
pub(crate) struct Write {
    place: Arc<Place>,
    group: Option<String>,
    lease: Option<Uuid>,
    said: Vec<Said>,
}

struct Said {
    hash: i64,
    status: AckStatus,
    error: Option<String>,
}

/// What became of it.
pub(crate) struct Fate {
    place: Arc<Place>,
    released: bool,
    /// There is something to read for the group.
    more: bool,
    group: String,
    each: Vec<char>,
    all: Option<AckRefusal>,
    /// The lease is over.
    over: bool,
}

impl Fate {
    fn answer(&self, places: &[usize], answers: &mut [Option<Acked>]) {
        for (at, place) in places.iter().enumerate() {
            let outcome = match (self.all, self.each.get(at)) {
                (Some(refusal), _) => Err(refusal),
                (None, Some('o' | 'd')) => Ok(()),
                (None, Some('l')) => Err(AckRefusal::LeaseOver),
                (None, Some('b')) => Err(AckRefusal::BehindFailure),
                (None, _) => Err(AckRefusal::NotDelivered),
            };
            answers[*place] = Some(Acked {
                outcome,
                dead_lettered: self.each.get(at) == Some(&'d'),
                lease_released: self.released && outcome.is_ok(),
                queue: Some(self.place.queue.clone()),
                partition: Some(self.place.partition.clone()),
            });
        }
    }
}

/// Sends acks.
pub(crate) struct Acks {
    channel: Channel,
    held: Arc<Mutex<Held>>,
    balance: Arc<Balance>,
    tally: Arc<Tally>,
    ack: Sql,
    finish: Sql,
}

impl Acks {
    pub(crate) fn new(
        schema: &Schema,
        channel: Channel,
        held: Arc<Mutex<Held>>,
        balance: Arc<Balance>,
        tally: Arc<Tally>,
    ) -> Acks {
        let (ack, finish) = (pg::statement!("ack"), pg::statement!("finish"));
        Acks { channel, held, balance, tally, ack: schema.sql(ack), finish: schema.sql(finish) }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fate(&self, write: &Write, text: &str) -> Fate {
        let mut letters = text.chars();
        let first = letters.next();
        // Of a lease that is over nothing is delivered any more, whatever the message.
        let over = first == Some('l');
        let verdict = |letter| if over && letter == 'u' { 'l' } else { letter };
        let each: Vec<char> = letters.by_ref().take(write.said.len()).map(verdict).collect();
        let group: String = letters.collect();
        let released = matches!(first, Some('R' | 'r'));
        if released {
            self.balance.acked(write.place.id, &group, first == Some('R'));
        }
        Fate {
            place: write.place.clone(),
            released,
            // Of an ack that counted before, nobody may have been told.
            more: first == Some('R') || over && each.contains(&'o'),
            group,
            each,
            all: match first {
                None | Some('p') => Some(AckRefusal::NoPartition),
                Some('g') => Some(AckRefusal::NoGroup),
                Some(_) => None,
            },
            over,
        }
    }

    /// The members that end a lease of this process altogether, by their places: the lease, and whose it is.
    fn whole(&self, writes: &[&Write]) -> Vec<(usize, Uuid, Arc<str>)> {
        let held = self.held();
        let whole = |(at, write): (usize, &&Write)| {
            let done = write.said.iter().all(|said| said.status == AckStatus::Completed);
            let said: Vec<i64> = write.said.iter().map(|said| said.hash).collect();
            let lease = write.lease.filter(|_| done)?;
            Some((at, lease, held.is_whole(lease, write.place.id, &said)?))
        };
        writes.iter().enumerate().filter_map(whole).collect()
    }
}

fn bound<'q>(query: Query<'q, Postgres, PgArguments>, writes: &[&'q Write]) -> Query<'q, Postgres, PgArguments> {
    let said = || writes.iter().flat_map(|write| &write.said);
    let mut last = 0;
    let lasts: Vec<i32> = writes
        .iter()
        .map(|write| {
            last += write.said.len() as i32;
            last
        })
        .collect();
    query
        .bind(writes.iter().map(|write| write.place.id).collect::<Vec<_>>())
        .bind(writes.iter().map(|write| write.group.as_deref()).collect::<Vec<_>>())
        .bind(writes.iter().map(|write| write.lease).collect::<Vec<_>>())
        .bind(lasts)
        .bind(said().map(|said| said.hash).collect::<Vec<_>>())
        .bind(said().map(|said| said.status.letter()).collect::<Vec<_>>())
        .bind(said().map(|said| said.error.as_deref()).collect::<Vec<_>>())
}

impl BatchedWrite for Acks {
    type Write = Write;
    type Key = (i64, Option<String>, Option<Uuid>);
    type Outcome = Fate;
    // Sent again it finds its messages done under this lease or the last, and changes nothing.
    const RECORDS_OUTCOMES: bool = false;

    fn key(&self, write: &Write) -> Self::Key {
        (write.place.id, write.group.clone(), write.lease)
    }

    fn bytes(&self, write: &Write) -> usize {
        write.said.iter().map(|said| 32 + said.error.as_ref().map_or(0, String::len)).sum()
    }

    fn wake_ups(&self, write: &Write, fate: Option<&Fate>) -> Vec<WakeUp> {
        match fate {
            // Whose it is may be known by the lease alone: then whoever waits for the queue looks.
            None => match &write.group {
                Some(group) => vec![write.place.freed(&self.channel, group)],
                None => vec![write.place.pushed(&self.channel)],
            },
            Some(fate) if fate.more => vec![write.place.freed(&self.channel, &fate.group)],
            Some(_) => Vec::new(),
        }
    }

    async fn send(
        &self,
        conn: &mut PgConnection,
        batch: &WriteBatch<'_, Write>,
    ) -> pg::Result<BatchResult<Self::Outcome>> {
        let whole = self.whole(&batch.writes);
        if whole.is_empty() {
            return batch.result(self, &bound(batch.query(&self.ack), &batch.writes).fetch_one(conn).await?);
        }
        let row = batch
            .query(&self.finish)
            .bind(whole.iter().map(|(at, ..)| batch.writes[*at].place.id).collect::<Vec<_>>())
            .bind(whole.iter().map(|(_, lease, _)| *lease).collect::<Vec<_>>())
            .fetch_one(&mut *conn)
            .await?;
        let ended: Vec<Option<String>> = row.try_get(0)?;
        let mut outcomes: Vec<Option<String>> = batch.writes.iter().map(|_| None).collect();
        for ((at, lease, group), ended) in whole.into_iter().zip(ended) {
            let write = batch.writes[at];
            self.held().tried(lease, write.place.id);
            outcomes[at] = ended.map(|released| format!("{released}{}{group}", "o".repeat(write.said.len())));
        }
        // The rest, and leases that are not what they were.
        let rest: Vec<usize> = (0..outcomes.len()).filter(|at| outcomes[*at].is_none()).collect();
        if !rest.is_empty() {
            let writes: Vec<&Write> = rest.iter().map(|at| batch.writes[*at]).collect();
            let row = bound(batch.query(&self.ack), &writes).fetch_one(conn).await?;
            for (at, outcome) in rest.into_iter().zip(row.try_get::<Vec<Option<String>>, _>(0)?) {
                outcomes[at] = outcome;
            }
        }
        let fate = |(write, text): (&&Write, Option<String>)| text.map(|text| self.fate(write, &text));
        Ok(BatchResult::new(batch.writes.iter().zip(outcomes).map(fate).collect(), row.try_get(1)?))
    }

    fn decode(&self, write: &Write, text: &str) -> Option<Fate> {
        Some(self.fate(write, text))
    }

    fn committed(&self, write: &Write, fate: &Fate) {
        self.count(write, fate);
    }
}
