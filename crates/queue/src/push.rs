//! Appending messages: one statement for everything that waits to be pushed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pg::{Database, Schema, Sql};
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};
use tokio::time::{Instant, sleep};
use uuid::Uuid;
use wake::{BatchResult, BatchedWrite, Channel, WakeUp, WriteBatch};

use crate::balance::Balance;
use crate::fate::Fate;
use crate::lane::{End, Lane, Verdict};
use crate::place::Place;
use crate::seen::{Extra, Seen};
use crate::tally::Tally;

/// How often a flight tries again because others appended what it was about to: each time it knows more.
const ROUNDS_MAX: usize = 10;

/// A message as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct Sealed {
    pub(crate) id: Uuid,
    pub(crate) transaction_id: String,
    pub(crate) hash: i64,
    pub(crate) payload: Vec<u8>,
    pub(crate) trace_id: Option<String>,
    pub(crate) producer: Option<String>,
}

impl Sealed {
    /// About what it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.payload.len() + self.transaction_id.len() + 64
    }
}

/// Messages of one request for one partition.
pub(crate) struct Load {
    pub(crate) place: Arc<Place>,
    pub(crate) messages: Vec<Sealed>,
    /// They waited for the end of maintenance.
    pub(crate) drains: bool,
}

/// What was learnt in a transaction, and is to be remembered when that is committed.
#[derive(Default)]
pub(crate) struct Lessons {
    /// Of partitions.
    pub(crate) extras: HashMap<i64, Extra>,
    /// How many messages were stored, by queue.
    stored: HashMap<String, usize>,
}

/// Appends loads; dedups them.
pub(crate) struct Push {
    channel: Channel,
    seen: Arc<Mutex<Seen>>,
    balance: Arc<Balance>,
    tally: Arc<Tally>,
    /// A flight's statement is its commit. Through a pooler that comes after it, and may fail.
    commits: bool,
    push: Sql,
    hashes: Sql,
    originals: Sql,
}

impl Push {
    pub(crate) fn new(
        db: &Database,
        schema: &Schema,
        channel: Channel,
        seen: Arc<Mutex<Seen>>,
        balance: Arc<Balance>,
        tally: Arc<Tally>,
    ) -> Push {
        Push {
            channel,
            seen,
            balance,
            tally,
            commits: !db.has_pooler(),
            push: schema.sql(pg::statement!("push")),
            hashes: schema.sql(pg::statement!("hashes")),
            originals: schema.sql(pg::statement!("originals")),
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends inside a transaction. What that has taught so far is used and added to; it is to be [remembered](Self::learn) when the transaction is committed, and not before.
    pub(crate) async fn append_in(
        &self,
        conn: &mut PgConnection,
        loads: &[&Load],
        wake_ups: &(Vec<String>, Vec<String>),
        lessons: &mut Lessons,
    ) -> pg::Result<Vec<Fate>> {
        let (channels, payloads) = wake_ups;
        let query = || sqlx::query(&self.push).bind(None::<Uuid>).bind(channels).bind(payloads).bind(true);
        let mut lanes = Lane::of(loads);
        lanes.iter_mut().for_each(|lane| lane.extra = lessons.extras.remove(&lane.place.id).unwrap_or_default());
        self.append(conn, &mut lanes, query, true).await?;
        for lane in lanes.iter_mut().filter(|lane| lane.ended.is_none()) {
            lessons.extras.insert(lane.place.id, std::mem::take(&mut lane.extra));
        }
        let fates: Vec<Fate> = told(lanes).into_iter().map(|fate| fate.unwrap_or(Fate::Gone)).collect();
        for (load, fate) in loads.iter().zip(&fates) {
            *lessons.stored.entry(load.place.queue.clone()).or_default() += stored(load, fate);
        }
        Ok(fates)
    }

    /// Remembers what was learnt in a transaction that is committed.
    pub(crate) fn learn(&self, lessons: Lessons) {
        lessons.stored.iter().for_each(|(queue, messages)| self.tally.pushed(queue, *messages));
        let mut seen = self.seen();
        lessons.extras.into_iter().for_each(|(partition, extra)| seen.learn(partition, extra));
    }

    /// Remembers partitions that are not remembered, or of which others have appended much since: before they are appended to in a transaction of which nothing will be heard.
    /// On a connection of its own, which sees nothing of that.
    pub(crate) async fn catch_up(&self, conn: &mut PgConnection, behind: Vec<(i64, Option<i64>)>) -> pg::Result<()> {
        let extras = self.read(conn, behind).await?;
        self.learn(Lessons { extras, ..Lessons::default() });
        Ok(())
    }

    /// Appends what lanes have. Answers the backend, if it has been asked to append anything. `lasts`: as in [`Lane::append`].
    async fn append<'q>(
        &self,
        conn: &mut PgConnection,
        lanes: &mut [Lane<'q>],
        query: impl Fn() -> Query<'q, Postgres, PgArguments>,
        lasts: bool,
    ) -> pg::Result<Option<i32>> {
        let mut backend = None;
        for _ in 0..ROUNDS_MAX {
            self.prepare(conn, lanes).await?;
            let mut sent: Vec<&mut Lane<'_>> = lanes.iter_mut().filter(|lane| lane.is_eager()).collect();
            if sent.is_empty() {
                break;
            }
            let rows = bound(query(), &sent).fetch_all(&mut *conn).await?;
            if rows.is_empty() {
                sent.iter_mut().for_each(|lane| lane.ended = Some(End::Shelved));
            }
            for row in rows {
                let place: i32 = row.try_get("place")?;
                let Some(lane) = sent.get_mut(place as usize - 1) else { continue };
                if let Some(unseen) = row.try_get::<Option<Vec<Option<i64>>>, _>("unseen")? {
                    lane.extra.skip_to(row.try_get("unseen_from")?);
                    lane.extra.extend(unseen);
                }
                lane.extra.first = row.try_get::<Option<i64>, _>("begins")?.unwrap_or_default();
                match row.try_get("verdict")? {
                    "ok" => lane.append(row.try_get("first_offset")?, lasts),
                    "stale" => {}
                    "locked" => lane.ended = Some(End::Locked),
                    "full" => lane.ended = Some(End::Full),
                    _ => lane.ended = Some(End::Gone),
                }
                backend = row.try_get("backend")?;
            }
        }
        Ok(backend)
    }

    /// Finds out what of the lanes is stored already.
    async fn prepare(&self, conn: &mut PgConnection, lanes: &mut [Lane<'_>]) -> pg::Result<()> {
        let doubts = loop {
            self.read_cold(conn, lanes).await?;
            if let Some(doubts) = self.doubts(lanes) {
                break doubts;
            }
        };
        if doubts.is_empty() {
            return Ok(());
        }
        let partitions: Vec<i64> = doubts.iter().map(|doubt| lanes[doubt.lane].place.id).collect();
        let offsets: Vec<i64> = doubts.iter().map(|doubt| doubt.offset).collect();
        let rows = sqlx::query(&self.originals).bind(partitions).bind(offsets).fetch_all(conn).await?;
        let mut originals: HashMap<usize, (Uuid, String)> = HashMap::new();
        for row in rows {
            let place: i64 = row.try_get(0)?;
            originals.insert(place as usize - 1, (row.try_get(1)?, row.try_get(2)?));
        }
        for (place, Doubt { lane, index, .. }) in doubts.into_iter().enumerate() {
            let lane = &mut lanes[lane];
            let message = lane.messages[index];
            match originals.remove(&place) {
                // Stored by an earlier attempt whose answer was lost.
                Some((id, _)) if id == message.id => lane.verdicts[index] = Verdict::Stored,
                Some((id, transaction)) if transaction == message.transaction_id => {
                    lane.verdicts[index] = Verdict::DuplicateOf(id);
                }
                // What had the hash was removed, or was another; where it is stored now is learnt with that.
                _ => lane.fresh.push(index),
            }
        }
        lanes.iter_mut().for_each(|lane| lane.fresh.sort_unstable());
        Ok(())
    }

    /// Reads all hashes of the partitions of which none are remembered.
    async fn read_cold(&self, conn: &mut PgConnection, lanes: &mut [Lane<'_>]) -> pg::Result<()> {
        let mut cold: Vec<&mut Lane<'_>> = Vec::new();
        {
            let mut seen = self.seen();
            for lane in lanes.iter_mut().filter(|lane| lane.is_open() && lane.extra.from.is_none()) {
                match seen.upto(lane.place.id) {
                    Some(upto) => lane.extra = Extra { begins: false, ..Extra::from(upto) },
                    None => cold.push(lane),
                }
            }
        }
        if cold.is_empty() {
            return Ok(());
        }
        let mut read = self.read(conn, cold.iter().map(|lane| (lane.place.id, None)).collect()).await?;
        for lane in cold {
            match read.remove(&lane.place.id) {
                Some(extra) => lane.extra = extra,
                // There is no such partition any more.
                None => lane.ended = Some(End::Gone),
            }
        }
        Ok(())
    }

    /// The hashes of partitions from an offset on up to which they are known, or from their beginning.
    async fn read(
        &self,
        conn: &mut PgConnection,
        partitions: Vec<(i64, Option<i64>)>,
    ) -> pg::Result<HashMap<i64, Extra>> {
        let known: HashMap<i64, Option<i64>> = partitions.iter().copied().collect();
        let (ids, froms): (Vec<i64>, Vec<Option<i64>>) = partitions.into_iter().unzip();
        let froms: Vec<i64> = froms.into_iter().map(Option::unwrap_or_default).collect();
        let mut read: HashMap<i64, Extra> = HashMap::new();
        let window = self.seen().window();
        for row in sqlx::query(&self.hashes).bind(ids).bind(froms).bind(window).fetch_all(conn).await? {
            let (id, first): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
            let extra = read.entry(id).or_insert_with(|| {
                let from = known.get(&id).copied().flatten();
                Extra { begins: from.is_none(), first, ..Extra::from(from.unwrap_or(first)) }
            });
            if let Some(hashes) = row.try_get::<Option<Vec<Option<i64>>>, _>(3)? {
                extra.skip_to(row.try_get(2)?);
                extra.extend(hashes);
            }
        }
        Ok(read)
    }

    /// What of the lanes has a hash that is known. `None`: what was remembered a moment ago is forgotten by now, to make room for others or because it was wrong.
    fn doubts(&self, lanes: &mut [Lane<'_>]) -> Option<Vec<Doubt>> {
        let mut doubts = Vec::new();
        let mut lost = false;
        let seen = self.seen();
        for (at, lane) in lanes.iter_mut().enumerate().filter(|(_, lane)| lane.is_open()) {
            let id = lane.place.id;
            if !lane.extra.begins && !lane.extra.from.is_some_and(|from| seen.covers(id, from)) {
                lane.extra = Extra::default();
                lost = true;
                continue;
            }
            lane.fresh.clear();
            let mut own: HashMap<&str, usize> = HashMap::new();
            for (index, message) in lane.messages.iter().enumerate() {
                if let Some(first) = own.get(message.transaction_id.as_str()) {
                    lane.verdicts[index] = Verdict::SameAs(*first);
                    continue;
                }
                own.insert(&message.transaction_id, index);
                let known = || seen.offset(id, message.hash);
                match lane.extra.offsets.get(&message.hash).copied().or_else(known) {
                    Some(offset) => doubts.push(Doubt { lane: at, index, offset }),
                    None => lane.fresh.push(index),
                }
                lane.verdicts[index] = Verdict::Fresh;
            }
        }
        (!lost).then_some(doubts)
    }
}

/// A message whose hash was seen at an offset.
struct Doubt {
    lane: usize,
    index: usize,
    offset: i64,
}

/// What became of each load. `None`: somebody else has the partition.
fn told(lanes: Vec<Lane<'_>>) -> Vec<Option<Fate>> {
    let mut fates = Vec::new();
    lanes.into_iter().for_each(|lane| lane.tell(&mut fates));
    fates
}

/// How many messages of a load were stored, by this attempt or an earlier one.
fn stored(load: &Load, fate: &Fate) -> usize {
    match fate {
        Fate::Stored(originals) => originals.iter().filter(|original| original.is_none()).count(),
        Fate::Full(stored) => {
            load.messages.iter().zip(stored).filter(|(message, stored)| **stored == Some(message.id)).count()
        }
        Fate::Shelved | Fate::Gone => 0,
    }
}

fn bound<'q>(query: Query<'q, Postgres, PgArguments>, lanes: &[&mut Lane<'q>]) -> Query<'q, Postgres, PgArguments> {
    let fresh = || lanes.iter().flat_map(|lane| lane.fresh.iter().map(|index| lane.messages[*index]));
    let (mut lasts, mut cuts, mut place) = (Vec::with_capacity(lanes.len()), Vec::with_capacity(lanes.len()), 0);
    for lane in lanes {
        lane.cut(&mut place, &mut cuts);
        lasts.push(cuts.len() as i32);
    }
    query
        .bind(lanes.iter().map(|lane| lane.place.id).collect::<Vec<_>>())
        .bind(lanes.iter().map(|lane| lane.extra.upto).collect::<Vec<_>>())
        .bind(lanes.iter().map(|lane| lane.place.revision).collect::<Vec<_>>())
        .bind(lasts)
        .bind(cuts)
        .bind(fresh().map(|message| message.id).collect::<Vec<_>>())
        .bind(fresh().map(|message| message.transaction_id.as_str()).collect::<Vec<_>>())
        .bind(fresh().map(|message| message.hash).collect::<Vec<_>>())
        .bind(fresh().map(|message| message.payload.as_slice()).collect::<Vec<_>>())
        .bind(fresh().map(|message| message.trace_id.as_deref()).collect::<Vec<_>>())
        .bind(fresh().map(|message| message.producer.as_deref()).collect::<Vec<_>>())
        .bind(lanes.iter().all(|lane| lane.drains))
}

impl BatchedWrite for Push {
    type Write = Load;
    type Key = i64;
    type Outcome = Fate;
    // Sent again it finds its own messages, by their ids.
    const RECORDS_OUTCOMES: bool = false;

    fn key(&self, load: &Load) -> i64 {
        load.place.id
    }

    fn bytes(&self, load: &Load) -> usize {
        load.messages.iter().map(Sealed::bytes).sum()
    }

    fn wake_ups(&self, load: &Load, fate: Option<&Fate>) -> Vec<WakeUp> {
        let wake_ups = match fate {
            None => true,
            // Also what an earlier attempt stored, which may not have rung.
            Some(fate) => stored(load, fate) > 0,
        };
        if wake_ups { vec![load.place.pushed(&self.channel)] } else { Vec::new() }
    }

    async fn send(
        &self,
        conn: &mut PgConnection,
        batch: &WriteBatch<'_, Load>,
    ) -> pg::Result<BatchResult<Self::Outcome>> {
        // A member that travels alone waits for a lock, and keeps nothing busy.
        let pause = if batch.patient { Duration::ZERO } else { self.balance.pause(Instant::now()) };
        if !pause.is_zero() {
            sleep(pause).await;
        }
        let began = Instant::now();
        let mut lanes = Lane::of(&batch.writes);
        let messages = lanes.iter().map(|lane| lane.messages.len()).sum();
        let backend = self.append(conn, &mut lanes, || batch.query(&self.push), self.commits).await?;
        self.balance.pushed(messages, began, Instant::now());
        {
            let mut seen = self.seen();
            lanes.iter_mut().for_each(|lane| seen.learn(lane.place.id, std::mem::take(&mut lane.extra)));
        }
        Ok(BatchResult::new(told(lanes), backend))
    }

    fn committed(&self, load: &Load, fate: &Fate) {
        self.tally.pushed(&load.place.queue, stored(load, fate));
    }
}
