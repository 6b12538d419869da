//! What the engine itself attends to when it is due, whoever else is there.

use std::time::Duration;

use reveille_pg::Sql;
use reveille_wake::{Channel, Claim, PollRequest, PollResult, Topic};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

/// How many are attended to at a time.
pub(crate) const DUE_MAX: usize = 100;
/// How soon what was found and not dealt with is looked for again.
const AGAIN: Duration = Duration::from_secs(1);

/// How it is found. Nothing is taken by that: who deals with it first has done it.
pub(crate) struct Due<T> {
    /// Rung when something comes to be due.
    pub(crate) channel: Channel,
    /// Finds them, `$1` at most; the last row says when the next is due, as `next_due_ms`.
    pub(crate) find: Sql,
    /// Whether there is any.
    pub(crate) any: Sql,
    /// Reads one.
    pub(crate) read: fn(&PgRow) -> sqlx::Result<T>,
}

impl<T: Send + Sync + 'static> Claim for Due<T> {
    type Key = ();
    type Args = ();
    type Item = T;

    fn topics(&self, (): &()) -> Vec<Topic> {
        vec![self.channel.topic()]
    }

    async fn poll(&self, conn: &mut PgConnection, poll: &PollRequest<(), ()>) -> reveille_pg::Result<PollResult<T>> {
        let rows = sqlx::query(&self.find).bind(poll.wanted().min(DUE_MAX) as i64).fetch_all(conn).await?;
        let (last, due) = rows.split_last().ok_or(sqlx::Error::RowNotFound)?;
        let due = due.iter().map(self.read).collect::<sqlx::Result<Vec<T>>>()?;
        Ok(PollResult::next_due_ms(last.try_get("next_due_ms")?).deal(poll, due, Some(AGAIN)))
    }

    async fn give_back(&self, _: &mut PgConnection, _: &[T]) -> reveille_pg::Result<()> {
        Ok(())
    }

    async fn sweep(&self, conn: &mut PgConnection, keys: &[()]) -> reveille_pg::Result<Vec<usize>> {
        let any: bool = sqlx::query_scalar(&self.any).fetch_one(conn).await?;
        Ok((0..keys.len()).filter(|_| any).collect())
    }
}
