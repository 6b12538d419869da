//! Reading messages: a lease on the partitions that have waited longest.
//!
//! Waiters are equal if they read the same source for the same consumer group: one claim serves all of them. They differ in how much they take and for how long, so the claim takes
//! one row of arguments per waiter, and each gets partitions and a lease of its own: the messages of one partition never go to two of them.

use std::time::Duration;

use pg::{Schema, Sql};
use sqlx::{PgConnection, Row};
use time::OffsetDateTime;
use tokio::time::Instant;
use uuid::Uuid;
use wake::{Channel, Claim, Look, Looked, Topic};

use crate::error::{Error, Result};
use crate::id::Ids;
use crate::message::{Message, Stored};
use crate::name::{QUEUE_MODE, check, check_text, topic};
use crate::queues::Queues;

/// Messages of one pop at most.
pub const BATCH_MAX: usize = 10_000;
/// Partitions of one pop at most.
pub const PARTITIONS_MAX: usize = 1_000;
/// The longest wait of one pop, and the longest lease.
pub const LONGEST: Duration = Duration::from_secs(7 * 86_400);

/// Where to read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    /// A queue, and one of its partitions or whichever has waited longest.
    Queue {
        /// Its name. It need not exist yet.
        queue: String,
        /// The partition; `None`: any.
        partition: Option<String>,
    },
    /// All queues of a namespace, of a task, or of both.
    Space {
        /// The namespace; `None`: any.
        namespace: Option<String>,
        /// The task; `None`: any.
        task: Option<String>,
    },
}

impl Source {
    /// Any partition of a queue.
    pub fn queue(queue: impl Into<String>) -> Source {
        Source::Queue { queue: queue.into(), partition: None }
    }

    /// One partition of a queue.
    pub fn partition(queue: impl Into<String>, partition: impl Into<String>) -> Source {
        Source::Queue { queue: queue.into(), partition: Some(partition.into()) }
    }

    fn check(&self) -> Result<()> {
        match self {
            Source::Queue { queue, partition } => {
                check("queue", queue)?;
                partition.as_deref().map_or(Ok(()), |partition| check("partition", partition))
            }
            Source::Space { namespace: None, task: None } => {
                Err(Error::invalid("namespace", "neither a namespace nor a task is given"))
            }
            Source::Space { namespace, task } => {
                check_text("namespace", namespace.as_deref().unwrap_or_default())?;
                check_text("task", task.as_deref().unwrap_or_default())
            }
        }
    }

    /// Queue, partition, namespace, task.
    fn parts(&self) -> [Option<&str>; 4] {
        match self {
            Source::Queue { queue, partition } => [Some(queue), partition.as_deref(), None, None],
            Source::Space { namespace, task } => [None, None, namespace.as_deref(), task.as_deref()],
        }
    }
}

/// Where a consumer group begins that nobody has seen before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Subscription {
    /// At the first message there is.
    #[default]
    All,
    /// With what comes after.
    New,
    /// At the first message that is not older.
    Since(OffsetDateTime),
}

/// What to pop.
#[derive(Debug, Clone)]
pub struct Pop {
    /// From where.
    pub source: Source,
    /// For which consumer group; `None`: for the queue itself, [`QUEUE_MODE`].
    pub group: Option<String>,
    /// Messages at most.
    pub batch: usize,
    /// Partitions at most.
    pub partitions: usize,
    /// How long the messages are this caller's; `None`: as the queue says.
    pub lease: Option<Duration>,
    /// Whether they count as consumed with this pop, without an ack.
    pub auto_ack: bool,
    /// Where the group begins, if it is new.
    pub subscription: Subscription,
}

impl Pop {
    /// One message of a source, for the queue itself.
    pub fn new(source: Source) -> Pop {
        let subscription = Subscription::default();
        Pop { source, group: None, batch: 1, partitions: 1, lease: None, auto_ack: false, subscription }
    }
}

/// What was popped: messages, in order within each partition, under one lease.
#[derive(Debug)]
pub struct Batch {
    /// By what they are acked; `None` if they need not be.
    pub lease_id: Option<Uuid>,
    /// Whose they are.
    pub group: String,
    /// The messages.
    pub messages: Vec<Message>,
    /// How many partitions they are of.
    pub partitions: usize,
}

/// What a claim took for a waiter.
#[derive(Debug)]
pub(crate) struct Leased {
    lease_id: Option<Uuid>,
    messages: Vec<Message<Stored>>,
    partitions: usize,
    auto: Vec<Auto>,
}

/// How to give back what was consumed as it was read.
#[derive(Debug)]
struct Auto {
    partition: i64,
    consumer: i32,
    version: i64,
    position: i64,
}

impl Queues {
    /// Pops what is there now, or what comes until `deadline`. `None`: nothing did.
    ///
    /// A waiting pop costs no connection and no query; see the crate `wake` for how it is woken.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what cannot be meant; [`wake::Error::Full`] if too many wait; [`wake::Error::Closed`] while the process stops; else the database's.
    ///
    /// # Cancel safety
    /// Dropping the future gives back whatever was leased for it, uncharged.
    pub async fn pop(&self, pop: Pop, deadline: Option<Instant>) -> Result<Option<Batch>> {
        pop.source.check()?;
        let group = pop.group.unwrap_or_else(|| QUEUE_MODE.to_owned());
        check("consumerGroup", &group)?;
        let args = Args {
            batch: pop.batch.clamp(1, BATCH_MAX),
            partitions: pop.partitions.clamp(1, PARTITIONS_MAX),
            lease: pop.lease.map(|lease| lease.min(LONGEST)),
            auto_ack: pop.auto_ack,
            subscription: pop.subscription,
        };
        let key = Key { source: pop.source, group: group.clone() };
        let claimed = match deadline {
            Some(deadline) => self.inner.pops.claim(key, 1, args, deadline).await?,
            None => self.inner.pops.claim_now(key, 1, args).await?,
        };
        let Some(leased) = claimed.and_then(|claimed| claimed.accept().pop()) else { return Ok(None) };
        self.opened(leased, group).await.map(Some)
    }

    /// With the payloads as they were pushed. What cannot be decrypted here is for somebody else: it goes back, to the end of the line.
    async fn opened(&self, leased: Leased, group: String) -> Result<Batch> {
        let Leased { lease_id, messages, partitions, .. } = leased;
        let mut opened = Vec::with_capacity(messages.len());
        for message in messages {
            let queue = message.encrypted().then(|| message.queue.clone());
            match message.opened(|stored| self.inner.seal.open(stored.encrypted, stored.bytes)) {
                Some(message) => opened.push(message),
                None => {
                    if let Some(lease) = lease_id {
                        self.release(lease).await?;
                    }
                    return Err(Error::WrongKey { queue: queue.unwrap_or_default() });
                }
            }
        }
        Ok(Batch { lease_id, group, messages: opened, partitions })
    }
}

/// What makes waiters equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    source: Source,
    group: String,
}

/// In what they differ.
#[derive(Debug)]
pub(crate) struct Args {
    batch: usize,
    partitions: usize,
    lease: Option<Duration>,
    auto_ack: bool,
    subscription: Subscription,
}

/// How partitions are claimed.
pub(crate) struct Pops {
    channel: Channel,
    ids: Ids,
    claim: Sql,
    release: Sql,
    sweep: Sql,
}

impl Pops {
    pub(crate) fn new(schema: &Schema, channel: Channel) -> Pops {
        Pops {
            channel,
            ids: Ids::of(schema.name()),
            claim: schema.sql(include_str!("../sql/claim.sql")),
            release: schema.sql(include_str!("../sql/release.sql")),
            sweep: schema.sql(include_str!("../sql/sweep.sql")),
        }
    }
}

impl Claim for Pops {
    type Key = Key;
    type Args = Args;
    type Item = Leased;

    fn topics(&self, key: &Key) -> Vec<Topic> {
        let topics = match key.source.parts() {
            [Some(queue), Some(partition), ..] => [topic('p', &[queue, partition]), topic('g', &[queue, &key.group])],
            [Some(queue), None, ..] => [topic('q', &[queue]), topic('g', &[queue, &key.group])],
            [_, _, Some(namespace), Some(task)] => [topic('b', &[namespace, task]), topic('s', &[&key.group])],
            [_, _, Some(namespace), None] => [topic('n', &[namespace]), topic('s', &[&key.group])],
            [_, _, None, task] => [topic('t', &[task.unwrap_or_default()]), topic('s', &[&key.group])],
        };
        topics.iter().map(|key| self.channel.topic_of(key)).collect()
    }

    async fn look(&self, conn: &mut PgConnection, look: &Look<Key, Args>) -> pg::Result<Looked<Leased>> {
        let [queue, partition, namespace, task] = look.key.source.parts();
        let seats = || look.seats.iter().map(|seat| &*seat.args);
        let (modes, sinces): (Vec<&str>, Vec<Option<OffsetDateTime>>) = seats()
            .map(|args| match args.subscription {
                Subscription::All => ("all", None),
                Subscription::New => ("new", None),
                Subscription::Since(time) => ("timestamp", Some(time)),
            })
            .unzip();
        let leases: Vec<Uuid> = seats().map(|_| Uuid::now_v7()).collect();
        let query = sqlx::query(&self.claim)
            .bind(queue)
            .bind(partition)
            .bind(namespace)
            .bind(task)
            .bind(&look.key.group)
            .bind(modes)
            .bind(sinces)
            .bind(&leases)
            .bind(seats().map(|args| args.lease.map(|lease| lease.as_millis() as i64)).collect::<Vec<_>>())
            .bind(seats().map(|args| args.batch as i32).collect::<Vec<_>>())
            .bind(seats().map(|args| args.partitions as i32).collect::<Vec<_>>())
            .bind(seats().map(|args| args.auto_ack).collect::<Vec<_>>());
        let rows = query.fetch_all(conn).await?;
        let mut batches: Vec<Option<(Leased, Duration)>> = look.seats.iter().map(|_| None).collect();
        let mut next_due_ms = None;
        for row in &rows {
            let Some(seat) = row.try_get::<Option<i32>, _>("seat")?.map(|seat| seat as usize) else {
                next_due_ms = row.try_get("next_due_ms")?;
                continue;
            };
            let (Some(slot), Some(args)) = (batches.get_mut(seat), look.seats.get(seat).map(|seat| &seat.args)) else {
                continue;
            };
            let lease = Duration::from_millis(row.try_get::<i64, _>("lease_ms")? as u64);
            let (batch, shortest) = slot.get_or_insert_with(|| {
                let lease_id = (!args.auto_ack).then(|| leases[seat]);
                (Leased { lease_id, messages: Vec::new(), partitions: 0, auto: Vec::new() }, lease)
            });
            *shortest = lease.min(*shortest);
            self.read(row, batch, args.auto_ack)?;
        }
        let mut looked = Looked::next_due_ms(next_due_ms);
        for (seat, slot) in batches.into_iter().enumerate() {
            if let Some((batch, lease)) = slot {
                let lease = batch.lease_id.map(|_| lease);
                looked.give(seat, batch, lease);
            }
        }
        Ok(looked)
    }

    async fn give_back(&self, conn: &mut PgConnection, batches: &[Leased]) -> pg::Result<()> {
        let leases: Vec<Uuid> = batches.iter().filter_map(|batch| batch.lease_id).collect();
        let auto = || batches.iter().flat_map(|batch| &batch.auto);
        sqlx::query(&self.release)
            .bind(leases)
            .bind(auto().map(|auto| auto.partition).collect::<Vec<_>>())
            .bind(auto().map(|auto| auto.consumer).collect::<Vec<_>>())
            .bind(auto().map(|auto| auto.version).collect::<Vec<_>>())
            .bind(auto().map(|auto| auto.position).collect::<Vec<_>>())
            .execute(conn)
            .await?;
        Ok(())
    }

    async fn sweep(&self, conn: &mut PgConnection, keys: &[Key]) -> pg::Result<Vec<usize>> {
        let part = |at: usize| keys.iter().map(|key| key.source.parts()[at]).collect::<Vec<_>>();
        let due: Vec<i32> = sqlx::query_scalar(&self.sweep)
            .bind(part(0))
            .bind(part(1))
            .bind(part(2))
            .bind(part(3))
            .bind(keys.iter().map(|key| key.group.as_str()).collect::<Vec<_>>())
            .fetch_all(conn)
            .await?;
        Ok(due.into_iter().map(|place| place as usize - 1).collect())
    }
}

impl Pops {
    /// Adds the messages of a segment to a batch.
    fn read(&self, row: &sqlx::postgres::PgRow, batch: &mut Leased, auto_ack: bool) -> pg::Result<()> {
        let number: i64 = row.try_get("partition_id")?;
        let first: i64 = row.try_get("first_offset")?;
        let partition_id = self.ids.partition(number);
        if batch.messages.last().is_none_or(|last| last.partition_id != partition_id) {
            batch.partitions += 1;
            if auto_ack {
                let (consumer, version) = (row.try_get("consumer_id")?, row.try_get("version")?);
                batch.auto.push(Auto { partition: number, consumer, version, position: first });
            }
        }
        let (queue, partition): (&str, &str) = (row.try_get("queue_name")?, row.try_get("partition_name")?);
        let (created_at, encrypted) = (row.try_get("created_at")?, row.try_get("encrypted")?);
        let retries: i32 = row.try_get("retries")?;
        let ids: Vec<Option<Uuid>> = row.try_get("ids")?;
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
                retries: retries as u32,
            });
        }
        Ok(())
    }
}
