//! Finding what the engine itself has to do: ended leases, overdue tasks, due schedules, ended retentions.

use std::time::Duration;

use reveille_pg::Sql;
use reveille_wake::{Channel, Claim, PollRequest, PollResult, Topic};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

/// The most items that are processed at a time.
pub(crate) const DUE_MAX: usize = 100;
/// When an item that was found and not processed is due again.
const AGAIN: Duration = Duration::from_secs(1);

/// Finds due items. Finding does not claim: if several processes find the same item, the first one processes it.
pub(crate) struct Due<T> {
    /// Wakes when an item becomes due.
    pub(crate) channel: Channel,
    /// Finds at most `$1` items. The last row has the time until the next one is due, as `next_due_ms`.
    pub(crate) find: Sql,
    /// Answers whether there is a due item.
    pub(crate) any: Sql,
    /// Reads an item.
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
