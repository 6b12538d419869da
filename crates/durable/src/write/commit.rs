//! What a process has finished, committed together.
//!
//! Turns, activities and messages end in one transaction each in the contract. Nothing speaks against one transaction for all that are finished at
//! the same moment: it costs one round trip, one flush and one kept outcome instead of one for each kind. Each keeps its own fence and outcome.

use std::sync::Arc;

use pg::{Schema, Sql};
use sqlx::PgConnection;
use wake::{BatchResult, BatchedWrite, RECENT, ScanBounds, WakeUp, WriteBatch};

use super::repeated;
use super::turn::{self, Acked, Ended};
use crate::blocked::Blocked;
use crate::lease::Leases;
use crate::message::{Message, millis};
use crate::provider::Channels;
use crate::token::WorkToken;
use crate::turn::TurnKey;

/// Commits what is finished. A token presented a second time must fail although the first answer was lost, and a message must not arrive twice,
/// so outcomes are kept.
pub(crate) struct Commit {
    channels: Channels,
    blocked: Arc<Blocked>,
    leases: Arc<Leases>,
    bounds: Arc<ScanBounds<TurnKey>>,
    sql: Sql,
}

/// Something finished.
#[derive(Debug, Clone)]
pub(crate) enum Finished {
    Turn(Arc<Ended>),
    Work(Arc<Done>),
    Message(Arc<Message>),
}

/// An activity that has ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) token: WorkToken,
    /// `None`: nobody is told.
    pub(crate) completion: Option<Message>,
}

impl Commit {
    pub(crate) fn new(
        schema: &Schema,
        channels: Channels,
        blocked: Arc<Blocked>,
        leases: Arc<Leases>,
        bounds: Arc<ScanBounds<TurnKey>>,
    ) -> Commit {
        Commit { channels, blocked, leases, bounds, sql: schema.sql(pg::statement!("commit")) }
    }

    /// A turn has ended. Whether somebody here must look for messages to its instance that came meanwhile.
    fn frees(&self, ended: &Ended, acked: &Acked) -> bool {
        // However it ended, its lease is out of the way of whoever has seen one wait.
        let waited_for = self.blocked.ended();
        let &Acked::Done { more, .. } = acked else { return waited_for };
        // After a long turn one may lie before the floor by now, where no look has seen it wait.
        let long = self.leases.age(ended.token.fence).is_some_and(|age| age > RECENT);
        if long {
            self.bounds.forget();
        }
        waited_for || more || long
    }
}

impl BatchedWrite for Commit {
    type Write = Finished;
    /// Turns come first, then activities, then messages: so does their part of the statement, and so do the outcomes.
    type Key = (u8, String, i64);
    type Outcome = Acked;
    const RECORDS_OUTCOMES: bool = true;

    fn key(&self, finished: &Finished) -> (u8, String, i64) {
        match finished {
            Finished::Turn(ended) => (0, ended.token.instance.clone(), 0),
            Finished::Work(done) => (1, done.token.instance.clone(), done.token.id),
            // In the order in which they were sent.
            Finished::Message(_) => (2, String::new(), 0),
        }
    }

    fn bytes(&self, finished: &Finished) -> usize {
        match finished {
            Finished::Turn(ended) => ended.bytes(),
            Finished::Work(done) => done.token.instance.len() + done.completion.as_ref().map_or(0, Message::bytes),
            Finished::Message(message) => message.bytes(),
        }
    }

    fn wake_ups(&self, finished: &Finished, outcome: Option<&Acked>) -> Vec<WakeUp> {
        let orchestrations = &self.channels.orchestrations;
        match (finished, outcome) {
            (Finished::Turn(ended), Some(acked)) => {
                let mut wake_ups = ended.wake_ups(&self.channels, Some(acked));
                // Not known before the commit, so it rings only here, where the dispatcher of this turn is free for it.
                wake_ups.extend(self.frees(ended, acked).then(|| orchestrations.wake_up()));
                wake_ups
            }
            (Finished::Turn(ended), None) => ended.wake_ups(&self.channels, None),
            (Finished::Work(_), Some(Acked::Gone | Acked::Expired | Acked::Duplicate)) => Vec::new(),
            (Finished::Work(done), _) => done.completion.iter().map(|_| orchestrations.wake_up()).collect(),
            (Finished::Message(message), _) => vec![orchestrations.wake_up().after(message.due.delay())],
        }
    }

    async fn send(
        &self,
        conn: &mut PgConnection,
        batch: &WriteBatch<'_, Finished>,
    ) -> pg::Result<BatchResult<Self::Outcome>> {
        let (mut turns, mut works, mut messages): (Vec<&Ended>, Vec<&Done>, Vec<&Message>) = Default::default();
        for finished in &batch.writes {
            match finished {
                Finished::Turn(ended) => turns.push(ended),
                Finished::Work(done) => works.push(done),
                Finished::Message(message) => messages.push(message),
            }
        }
        let completions = || works.iter().map(|done| done.completion.as_ref());
        let query = turn::bind(batch.query(&self.sql), &turns)
            .bind(works.iter().map(|done| done.token.instance.as_str()).collect::<Vec<_>>())
            .bind(works.iter().map(|done| done.token.id).collect::<Vec<_>>())
            .bind(works.iter().map(|done| done.token.fence).collect::<Vec<_>>())
            .bind(repeated(works.iter().map(|done| done.token.fence)))
            .bind(completions().map(|told| told.map(|told| told.instance.as_str())).collect::<Vec<_>>())
            .bind(completions().map(|told| told.map(|told| told.item.as_str())).collect::<Vec<_>>())
            .bind(messages.iter().map(|message| message.instance.as_str()).collect::<Vec<_>>())
            .bind(messages.iter().map(|message| millis(message.due.delay())).collect::<Vec<_>>())
            .bind(messages.iter().map(|message| message.item.as_str()).collect::<Vec<_>>());
        batch.result(self, &query.fetch_one(conn).await?)
    }

    fn decode(&self, _: &Finished, text: &str) -> Option<Acked> {
        Acked::decode(text)
    }
}
