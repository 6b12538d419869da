//! Pushes and acks in one transaction of the database.
//!
//! A consumer that acks its input and pushes its output in two calls may die between them: then one is lost, or is done
//! twice. Here both are committed together, or neither and the caller gets the reason. If the connection breaks during
//! the commit, the server is asked for the status of the transaction, so that the answer is right.
//!
//! Locks are taken in one order, so that transactions wait for each other without deadlocks: partitions by number, then
//! the cursors of required leases, then the cursors of acks.
use reveille_pg::retry::{Policy, retry};
use reveille_wake::BatchedWrite as _;
use sqlx::{PgConnection, Row};
use tokio::time::Instant;
use uuid::Uuid;

use crate::consume::ack::{Ack, Acked, Write};
use crate::consume::ack_outcome::AckOutcome;
use crate::error::{Error, Result};
use crate::message::{NewMessage, PushStatus, Pushed};
use crate::produce::append::PendingHashes;
use crate::queues::Queues;

/// A part of a transaction.
#[derive(Debug, Clone)]
pub enum Operation {
    /// Messages to push.
    Push(Vec<NewMessage>),
    /// An ack. Without a lease it uses the required lease on its partition, if there is one.
    Ack(Ack),
}

/// The answer to a message or an ack of a committed transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// A message: queued, or a duplicate.
    Pushed(Pushed),
    /// An accepted ack.
    Acked(Acked),
}

/// A lease that has not expired, with its partition and consumer group.
struct ActiveLease {
    lease: Uuid,
    partition: i64,
    group: String,
}

/// The operations of a transaction by kind.
struct Parts<'a> {
    operations: &'a [Operation],
    messages: Vec<NewMessage>,
    acks: Vec<Ack>,
    leases: &'a [Uuid],
}

impl Queues {
    /// Executes all operations, or none. Returns one answer per message and ack, in order.
    ///
    /// None of `required_leases` may have expired at the commit.
    ///
    /// # Errors
    /// [`Error::RolledBack`] if an operation fails; [`Error::Invalid`] if one is invalid; otherwise those of the
    /// database. Nothing was changed.
    ///
    /// # Cancel safety
    /// Dropping the future rolls back, unless it is being committed.
    pub async fn transaction(&self, operations: Vec<Operation>, required_leases: &[Uuid]) -> Result<Vec<Done>> {
        let parts = Parts::of(&operations, required_leases);
        self.open_all(&parts.messages).await?;
        let attempt = async |_| match self.attempt(&parts).await {
            Err(Error::Database(error)) => Err(error),
            decided => Ok(decided),
        };
        retry(&Policy::default(), "carry out a transaction", attempt).await?
    }

    /// Creates missing partitions before the transaction begins. Inside, that would take a second connection, for which
    /// many transactions could wait forever.
    async fn open_all(&self, messages: &[NewMessage]) -> Result<()> {
        let mut names: Vec<(&str, &str)> = Vec::new();
        for message in messages {
            message.check()?;
            names.push((&message.queue, message.partition_name()));
        }
        names.sort_unstable();
        names.dedup();
        self.inner.open(&names).await.map(drop)
    }

    async fn attempt(&self, parts: &Parts<'_>) -> Result<Vec<Done>> {
        let mut transaction = self.inner.db.begin().await?;
        let mut pending = PendingHashes::default();
        let (id, done, acked) = self.inside(&mut transaction, parts, &mut pending).await?;
        match transaction.commit().await.map_err(reveille_pg::Error::from) {
            Ok(()) => {}
            Err(error) if error.is_ambiguous() => match self.has_committed(&id).await {
                Some(true) => {}
                Some(false) => return Err(error.into()),
                None => {
                    return Err(
                        reveille_wake::Error::Unknown { what: "transaction".into(), source: error.into() }.into()
                    );
                }
            },
            Err(error) => return Err(error.into()),
        }
        self.inner.push.learn(pending);
        acked.iter().for_each(|(write, outcome)| self.inner.ack.committed(write, outcome));
        Ok(done)
    }

    /// Everything but the commit. Returns the transaction's id, the answers, and the outcomes to apply to memory after
    /// the commit.
    async fn inside(
        &self,
        conn: &mut PgConnection,
        parts: &Parts<'_>,
        pending: &mut PendingHashes,
    ) -> Result<(String, Vec<Done>, Vec<(Write, AckOutcome)>)> {
        let pushed = match parts.messages.is_empty() {
            true => Vec::new(),
            false => self.push_uncommitted(conn, &parts.messages, pending).await?,
        };
        for pushed in &pushed {
            if let PushStatus::Failed(reason) = &pushed.status {
                let reason = format!("push of {:?}: {reason}", pushed.transaction_id);
                return Err(Error::RolledBack { reason });
            }
        }
        let (id, leases_held) = self.leases_held(conn, parts.leases).await?;
        if let Some(over) =
            parts.leases.iter().find(|lease| leases_held.iter().all(|leases_held| leases_held.lease != **lease))
        {
            return Err(Error::RolledBack { reason: format!("lease {over} has expired or was released") });
        }
        let (acked, uncommitted) = match parts.acks.is_empty() {
            true => (Vec::new(), Vec::new()),
            false => self.ack_uncommitted(conn, &self.resolved(&parts.acks, &leases_held)).await?,
        };
        for (ack, acked) in parts.acks.iter().zip(&acked) {
            if let Err(error) = acked.outcome {
                let reason = format!("ack of {:?}: {error}", ack.transaction_id);
                return Err(Error::RolledBack { reason });
            }
        }
        Ok((id, parts.done(pushed, acked), uncommitted))
    }

    /// The transaction's id, and those of the leases that have not expired.
    async fn leases_held(&self, conn: &mut PgConnection, leases: &[Uuid]) -> Result<(String, Vec<ActiveLease>)> {
        let row = sqlx::query(&self.inner.sql.required_leases).bind(leases).fetch_one(conn).await?;
        let (leases, partitions): (Vec<Uuid>, Vec<i64>) = (row.try_get(1)?, row.try_get(2)?);
        let groups: Vec<String> = row.try_get(3)?;
        let each = leases.into_iter().zip(partitions).zip(groups);
        let leases_held = each.map(|((lease, partition), group)| ActiveLease { lease, partition, group }).collect();
        Ok((row.try_get(0)?, leases_held))
    }

    /// The acks; those without a lease get the required lease on their partition.
    fn resolved(&self, acks: &[Ack], leases_held: &[ActiveLease]) -> Vec<Ack> {
        let resolve = |ack: &Ack| {
            let partition = self.inner.ids.number(ack.partition_id);
            let is_its = |leases_held: &&ActiveLease| {
                Some(leases_held.partition) == partition
                    && ack.group.as_ref().is_none_or(|group| *group == leases_held.group)
            };
            let lease_id =
                ack.lease_id.or_else(|| leases_held.iter().find(is_its).map(|leases_held| leases_held.lease));
            Ack { lease_id, ..ack.clone() }
        };
        acks.iter().map(resolve).collect()
    }

    /// Whether a transaction whose answer was lost has committed. `None`: this could not be determined.
    async fn has_committed(&self, id: &str) -> Option<bool> {
        let policy = Policy::default();
        let (began, mut pauses) = (Instant::now(), policy.backoff());
        while began.elapsed() < policy.give_up_after {
            match self.status(id).await.as_deref() {
                Ok("committed") => return Some(true),
                Ok("in progress") => {}
                Err(error) if error.is_transient() => {}
                // Rolled back, or unknown to a server that was promoted.
                Ok(_) | Err(_) => return Some(false),
            }
            tokio::time::sleep(pauses.pause()).await;
        }
        None
    }

    async fn status(&self, id: &str) -> Result<String> {
        let mut session = self.inner.db.session().await?;
        let status: Option<String> =
            sqlx::query_scalar(&self.inner.sql.transaction_status).bind(id).fetch_one(&mut *session).await?;
        session.finish().await?;
        Ok(status.unwrap_or_default())
    }
}

impl<'a> Parts<'a> {
    fn of(operations: &'a [Operation], leases: &'a [Uuid]) -> Parts<'a> {
        let mut parts = Parts { operations, messages: Vec::new(), acks: Vec::new(), leases };
        for operation in operations {
            match operation {
                Operation::Push(messages) => parts.messages.extend(messages.iter().cloned()),
                Operation::Ack(ack) => parts.acks.push(ack.clone()),
            }
        }
        parts
    }

    /// The answers, in the order of the operations.
    fn done(&self, pushed: Vec<Pushed>, acked: Vec<Acked>) -> Vec<Done> {
        let (mut pushed, mut acked) = (pushed.into_iter(), acked.into_iter());
        let mut done = Vec::new();
        for operation in self.operations {
            match operation {
                Operation::Push(messages) => done.extend(pushed.by_ref().take(messages.len()).map(Done::Pushed)),
                Operation::Ack(_) => done.extend(acked.next().map(Done::Acked)),
            }
        }
        done
    }
}
