//! Pushing: from a request to loads and back.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use sqlx::PgConnection;
use tokio::time::timeout;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::fate::Fate;
use crate::message::{NewMessage, PushStatus, Pushed};
use crate::name::hash;
use crate::place::Place;
use crate::push::{Lessons, Load, Sealed};
use crate::queues::Queues;
use crate::seal::Label;

/// Messages of one request that travel together for one partition; further ones follow when these have arrived.
const LOAD_MAX: usize = 1_000;
/// And their bytes.
const LOAD_BYTES_MAX: usize = 1 << 20;
/// How often a partition is asked for again that is not what it was.
const REOPENED_MAX: usize = 5;
/// How long a push in somebody's transaction waits for a connection that it can do without.
const CONNECTION_WAIT: Duration = Duration::from_secs(2);

/// A message of a request, with the ids it has whatever happens.
struct Draft<'a> {
    message: &'a NewMessage,
    id: Uuid,
    transaction_id: String,
}

impl<'a> Draft<'a> {
    fn of(message: &'a NewMessage) -> Result<Draft<'a>> {
        message.check()?;
        let id = Uuid::now_v7();
        let given = message.transaction_id.clone().filter(|given| !given.is_empty());
        Ok(Draft { message, id, transaction_id: given.unwrap_or_else(|| Uuid::now_v7().to_string()) })
    }

    fn bytes(&self) -> usize {
        self.message.payload.get().len() + self.transaction_id.len()
    }
}

impl Queues {
    /// Pushes messages, each to its partition; within a partition in order. Each has an answer of its own, in order.
    ///
    /// Pushing again what may have arrived is safe if the messages have transaction ids: what is there already is a duplicate.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what cannot be meant, and then nothing was pushed; else the engine's, and then some may have been.
    pub async fn push(&self, messages: Vec<NewMessage>) -> Result<Vec<Pushed>> {
        let drafts = messages.iter().map(Draft::of).collect::<Result<Vec<_>>>()?;
        let lanes = self.lanes(&drafts).await?;
        let mut answers: Vec<Option<Pushed>> = drafts.iter().map(|_| None).collect();
        let sent = lanes.into_iter().map(|(place, indexes)| self.send(place, indexes, &drafts));
        for (index, pushed) in try_join_all(sent).await?.into_iter().flatten() {
            answers[index] = Some(pushed);
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// Pushes inside the caller's own transaction: the messages are there, and whoever waits for them is woken, exactly if it commits. Until then nobody else can push to the
    /// same partitions.
    ///
    /// # Errors
    /// As [`push`](Self::push). The transaction must be rolled back then.
    pub async fn push_in(&self, conn: &mut PgConnection, messages: Vec<NewMessage>) -> Result<Vec<Pushed>> {
        let drafts = messages.iter().map(Draft::of).collect::<Result<Vec<_>>>()?;
        self.catch_up(&drafts).await?;
        let mut lessons = Lessons::default();
        let pushed = self.push_drafts(conn, &drafts, &mut lessons).await?;
        // Whether it commits is never heard here.
        let mut seen = self.inner.seen();
        lessons.extras.iter().for_each(|(partition, extra)| seen.missed(*partition, extra.offsets.len()));
        Ok(pushed)
    }

    /// Learns what the partitions hold, as far as it would be read again and again.
    async fn catch_up(&self, drafts: &[Draft<'_>]) -> Result<()> {
        let lanes = self.lanes(drafts).await?;
        let behind: Vec<_> = {
            let seen = self.inner.seen();
            lanes.iter().filter_map(|(place, _)| seen.behind(place.id)).collect()
        };
        if behind.is_empty() {
            return Ok(());
        }
        // If all connections are in transactions that wait for this, it is read on the transaction's own.
        let Ok(session) = timeout(CONNECTION_WAIT, self.inner.db.session()).await else { return Ok(()) };
        let mut session = session?;
        self.inner.push.catch_up(&mut session, behind).await?;
        session.finish().await?;
        Ok(())
    }

    /// As [`push_in`](Self::push_in), for who commits the transaction: what is to be remembered then is added to `lessons`.
    pub(crate) async fn push_within(
        &self,
        conn: &mut PgConnection,
        messages: &[NewMessage],
        lessons: &mut Lessons,
    ) -> Result<Vec<Pushed>> {
        let drafts = messages.iter().map(Draft::of).collect::<Result<Vec<_>>>()?;
        self.push_drafts(conn, &drafts, lessons).await
    }

    async fn push_drafts(
        &self,
        conn: &mut PgConnection,
        drafts: &[Draft<'_>],
        lessons: &mut Lessons,
    ) -> Result<Vec<Pushed>> {
        let inner = &self.inner;
        for _ in 0..REOPENED_MAX {
            let mut lanes: Vec<(Arc<Place>, Vec<usize>)> = self.lanes(drafts).await?;
            lanes.sort_by_key(|(place, _)| place.id);
            let loads = lanes
                .iter()
                .map(|(place, indexes)| self.load(place, indexes, drafts))
                .collect::<Result<Vec<Load>>>()?;
            let wake_ups: Vec<wake::WakeUp> = lanes.iter().map(|(place, _)| place.pushed(&inner.channel)).collect();
            let wake_ups = wake::Wake::notifications(&wake_ups);
            let fates = inner.push.append_in(conn, &loads.iter().collect::<Vec<_>>(), &wake_ups, lessons).await?;
            if fates.contains(&Fate::Gone) {
                for ((place, _), _) in lanes.iter().zip(&fates).filter(|(_, fate)| **fate == Fate::Gone) {
                    inner.places.forget(&place.queue);
                    inner.seen().forget(place.id);
                }
                if fates.iter().all(|fate| *fate == Fate::Gone) {
                    continue;
                }
                return Err(Error::RolledBack { reason: "a queue was changed by somebody else meanwhile".to_owned() });
            }
            if fates.contains(&Fate::Shelved) {
                let reason = "pushes are under maintenance, and a transaction cannot wait for its end".to_owned();
                return Err(Error::RolledBack { reason });
            }
            let mut answers: Vec<Option<Pushed>> = drafts.iter().map(|_| None).collect();
            for ((place, indexes), fate) in lanes.iter().zip(fates) {
                for (index, pushed) in self.answers(place, indexes, &fate, drafts) {
                    answers[index] = Some(pushed);
                }
            }
            return Ok(answers.into_iter().flatten().collect());
        }
        Err(Error::RolledBack { reason: "a queue is being deleted".to_owned() })
    }

    /// The messages by partition.
    async fn lanes(&self, drafts: &[Draft<'_>]) -> Result<Vec<(Arc<Place>, Vec<usize>)>> {
        let mut names: Vec<(&str, &str)> = Vec::new();
        let mut lanes: Vec<Vec<usize>> = Vec::new();
        let mut known: HashMap<(&str, &str), usize> = HashMap::new();
        for (index, draft) in drafts.iter().enumerate() {
            let name = (draft.message.queue.as_str(), draft.message.lane());
            let at = *known.entry(name).or_insert_with(|| {
                names.push(name);
                lanes.push(Vec::new());
                names.len() - 1
            });
            lanes[at].push(index);
        }
        let places = self.inner.open(&names).await?;
        Ok(places.into_iter().zip(lanes).collect())
    }

    fn load(&self, place: &Arc<Place>, indexes: &[usize], drafts: &[Draft<'_>]) -> Result<Load> {
        let seal = |index: &usize| {
            let Draft { message, id, transaction_id } = &drafts[*index];
            Ok(Sealed {
                id: *id,
                transaction_id: transaction_id.clone(),
                hash: hash(transaction_id),
                payload: self.inner.seal.close(
                    place.encrypted,
                    &label(place, &drafts[*index]),
                    message.payload.get(),
                )?,
                trace_id: message.trace_id.clone(),
                producer: message.producer.clone(),
            })
        };
        let messages = indexes.iter().map(seal).collect::<Result<Vec<_>>>()?;
        Ok(Load { place: place.clone(), messages, drains: false })
    }

    /// Sends the messages of one partition: in order, and so one load after another.
    async fn send(
        &self,
        mut place: Arc<Place>,
        indexes: Vec<usize>,
        drafts: &[Draft<'_>],
    ) -> Result<Vec<(usize, Pushed)>> {
        let mut answers = Vec::with_capacity(indexes.len());
        let mut rest = indexes.as_slice();
        let mut reopened = 0;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = rest.iter().take(LOAD_MAX).take_while(|index| {
                let before = bytes;
                bytes += drafts[**index].bytes();
                before == 0 || bytes <= LOAD_BYTES_MAX
            });
            let (load, later) = rest.split_at(fits.count());
            let fate = self.inner.pushes.submit(self.load(&place, load, drafts)?).await?;
            match fate {
                Fate::Gone if reopened < REOPENED_MAX => {
                    reopened += 1;
                    self.inner.places.forget(&place.queue);
                    self.inner.seen().forget(place.id);
                    let name = (place.queue.clone(), place.partition.clone());
                    let reopened = self.inner.open(&[(&name.0, &name.1)]).await?;
                    place = reopened.into_iter().next().unwrap_or(place);
                }
                Fate::Shelved if !self.shelve(&place, load, drafts).await? => {}
                fate => {
                    answers.extend(self.answers(&place, load, &fate, drafts));
                    rest = later;
                }
            }
        }
        Ok(answers)
    }

    fn answers(&self, place: &Place, indexes: &[usize], fate: &Fate, drafts: &[Draft<'_>]) -> Vec<(usize, Pushed)> {
        let answer = |(at, index): (usize, &usize)| {
            let draft = &drafts[*index];
            let (status, message_id) = match fate {
                Fate::Stored(originals) => match originals.get(at).copied().flatten() {
                    Some(original) => (PushStatus::Duplicate, original),
                    None => (PushStatus::Queued, draft.id),
                },
                Fate::Shelved => (PushStatus::Buffered, draft.id),
                Fate::Full(stored) => match stored.get(at).copied().flatten() {
                    Some(id) if id == draft.id => (PushStatus::Queued, id),
                    Some(original) => (PushStatus::Duplicate, original),
                    None => (PushStatus::Failed(format!("queue {:?} has its maxSize", place.queue)), draft.id),
                },
                Fate::Gone => (PushStatus::Failed(format!("queue {:?} is being deleted", place.queue)), draft.id),
            };
            let transaction_id = draft.transaction_id.clone();
            (*index, Pushed { status, message_id, transaction_id, partition_id: self.inner.ids.partition(place.id) })
        };
        indexes.iter().enumerate().map(answer).collect()
    }

    /// Keeps messages until maintenance ends. `false`: it has.
    async fn shelve(&self, place: &Place, indexes: &[usize], drafts: &[Draft<'_>]) -> Result<bool> {
        let mut payloads = Vec::with_capacity(indexes.len());
        for index in indexes {
            let draft = &drafts[*index];
            payloads.push(self.inner.seal.close(place.encrypted, &label(place, draft), draft.message.payload.get())?);
        }
        let each = || indexes.iter().map(|index| &drafts[*index]);
        let mut session = self.inner.db.session().await?;
        let kept = sqlx::query_scalar(&self.inner.sql.shelve)
            .bind(&place.queue)
            .bind(&place.partition)
            .bind(place.encrypted)
            .bind(each().map(|draft| draft.id).collect::<Vec<_>>())
            .bind(each().map(|draft| draft.transaction_id.as_str()).collect::<Vec<_>>())
            .bind(each().map(|draft| draft.message.trace_id.as_deref()).collect::<Vec<_>>())
            .bind(each().map(|draft| draft.message.producer.as_deref()).collect::<Vec<_>>())
            .bind(payloads)
            .fetch_one(&mut *session)
            .await?;
        session.finish().await?;
        Ok(kept)
    }
}

/// What the payload of a draft is bound to.
fn label<'a>(place: &'a Place, draft: &'a Draft<'_>) -> Label<'a> {
    Label { queue: &place.queue, partition: &place.partition, transaction_id: &draft.transaction_id, id: draft.id }
}
