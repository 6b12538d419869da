//! How far an import has come.
//!
//! A row per source in the target, changed in the transaction that carries a batch over. So a batch whose answer was lost is neither lost nor
//! carried twice: whoever goes on reads where that is.

use pg::{Schema, Sql};
use sqlx::{PgConnection, Row};

use super::count::Imported;
use super::error::Result;

/// Where an import stands.
#[derive(Debug, Clone)]
pub(super) struct Position {
    pub(super) stage: String,
    /// The last name or number that was carried over in this stage; `None`: it has not begun.
    pub(super) through: Option<String>,
    pub(super) carried: Imported,
}

impl Position {
    /// After what to go on, and whether from it on: nothing is before the empty name, which may be one as well.
    pub(super) fn after(&self) -> (&str, bool) {
        self.through.as_deref().map_or(("", true), |through| (through, false))
    }
}

/// The ledger, for one source.
pub(super) struct Ledger {
    source: String,
    ledger: Sql,
    begin: Sql,
    position: Sql,
    advance: Sql,
}

impl Ledger {
    pub(super) fn new(source: &Schema, target: &Schema) -> Ledger {
        Ledger {
            source: source.name().to_owned(),
            ledger: target.sql(pg::statement!("import/ledger")),
            begin: target.sql(pg::statement!("import/begin")),
            position: target.sql(pg::statement!("import/position")),
            advance: target.sql(pg::statement!("import/advance")),
        }
    }

    /// Makes the ledger and the row, if they are not there.
    pub(super) async fn open(&self, conn: &mut PgConnection, first: &str) -> Result<()> {
        sqlx::query(&self.ledger).execute(&mut *conn).await.map_err(pg::Error::from)?;
        sqlx::query(&self.begin).bind(&self.source).bind(first).execute(conn).await.map_err(pg::Error::from)?;
        Ok(())
    }

    /// Where it stands; `None` if it has not begun.
    pub(super) async fn position(&self, conn: &mut PgConnection) -> Result<Option<Position>> {
        let query = sqlx::query(&self.position).bind(&self.source);
        let Some(row) = query.fetch_optional(conn).await.map_err(pg::Error::from)? else { return Ok(None) };
        let read = || {
            let mut counts = [0; 7];
            for (at, count) in counts.iter_mut().enumerate() {
                *count = row.try_get(at + 2)?;
            }
            Ok(Position { stage: row.try_get(0)?, through: row.try_get(1)?, carried: Imported::of(counts) })
        };
        Ok(Some(read().map_err(|error: sqlx::Error| pg::Error::from(error))?))
    }

    /// Where it stands, having begun.
    pub(super) async fn stand(&self, conn: &mut PgConnection) -> Result<Position> {
        // A row that somebody deleted meanwhile is an answer that cannot be read.
        Ok(self.position(conn).await?.ok_or_else(|| pg::Error::from(sqlx::Error::RowNotFound))?)
    }

    pub(super) async fn advance(&self, conn: &mut PgConnection, position: &Position) -> Result<()> {
        let query = sqlx::query(&self.advance).bind(&self.source).bind(&position.stage).bind(&position.through);
        let query = position.carried.named().into_iter().fold(query, |query, (_, count)| query.bind(count as i64));
        query.execute(conn).await.map_err(pg::Error::from)?;
        Ok(())
    }
}
