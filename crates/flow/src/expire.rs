//! Workers that died with the last attempt of a step: nobody claims that again, so the engine itself ends it.

use std::time::Duration;

use pg::{Schema, Sql};
use sqlx::{PgConnection, Row};
use wake::{Channel, Claim, Look, Looked, Ring, Topic};

use crate::token::Token;

/// Leases that are ended at a time.
pub(crate) const ENDED_MAX: usize = 100;
/// How soon what was found and not ended is looked for again.
const AGAIN: Duration = Duration::from_secs(1);

/// How ended leases are found. Nothing is taken by that: who ends them first has done it.
pub(crate) struct Leases {
    channel: Channel,
    find: Sql,
    any: Sql,
}

impl Leases {
    pub(crate) fn new(schema: &Schema, channel: Channel) -> Leases {
        Leases {
            channel,
            find: schema.sql(include_str!("../sql/ended_leases.sql")),
            any: schema.sql(include_str!("../sql/any_ended_lease.sql")),
        }
    }

    /// A last attempt begins, with a lease as long as this.
    pub(crate) fn begun(channel: &Channel, lease: Duration) -> Ring {
        channel.ring().after(lease)
    }
}

impl Claim for Leases {
    type Key = ();
    type Args = ();
    type Item = Token;

    fn topics(&self, (): &()) -> Vec<Topic> {
        vec![self.channel.topic()]
    }

    async fn look(&self, conn: &mut PgConnection, look: &Look<(), ()>) -> pg::Result<Looked<Token>> {
        let rows = sqlx::query(&self.find).bind(look.wanted().min(ENDED_MAX) as i64).fetch_all(conn).await?;
        let (last, ended) = rows.split_last().ok_or(sqlx::Error::RowNotFound)?;
        let tokens = ended.iter().map(Token::of);
        let tokens = tokens.collect::<sqlx::Result<Vec<Token>>>()?;
        Ok(Looked::next_due_ms(last.try_get("next_due_ms")?).deal(look, tokens, Some(AGAIN)))
    }

    async fn give_back(&self, _: &mut PgConnection, _: &[Token]) -> pg::Result<()> {
        Ok(())
    }

    async fn sweep(&self, conn: &mut PgConnection, keys: &[()]) -> pg::Result<Vec<usize>> {
        let any: bool = sqlx::query_scalar(&self.any).fetch_one(conn).await?;
        Ok((0..keys.len()).filter(|_| any).collect())
    }
}
