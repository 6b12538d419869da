//! The progress of an import.
//!
//! One row per source in the target, written in the transaction that copies a batch. So a batch with an unknown outcome
//! is neither lost nor copied twice: the next run reads the progress.

use reveille_pg::{Schema, Sql};
use sqlx::{PgConnection, Row};

use super::count::Imported;
use super::error::Result;

/// The position of an import.
#[derive(Debug, Clone)]
pub(super) struct Position {
    pub(super) stage: String,
    /// The last name or id that was copied in this stage; `None`: none yet.
    pub(super) copied_through: Option<String>,
    pub(super) copied: Imported,
}

impl Position {
    /// The name after which to continue, and whether it is included: at the start the empty name, which may exist.
    pub(super) fn after(&self) -> (&str, bool) {
        self.copied_through.as_deref().map_or(("", true), |last| (last, false))
    }
}

/// The progress of imports from one source.
pub(super) struct Progress {
    source: String,
    progress: Sql,
    begin: Sql,
    position: Sql,
    advance: Sql,
}

impl Progress {
    pub(super) fn new(source: &Schema, target: &Schema) -> Progress {
        Progress {
            source: source.name().to_owned(),
            progress: target.sql(reveille_pg::statement!("import/create_progress")),
            begin: target.sql(reveille_pg::statement!("import/begin")),
            position: target.sql(reveille_pg::statement!("import/read_progress")),
            advance: target.sql(reveille_pg::statement!("import/write_progress")),
        }
    }

    /// Creates the table and the row if they do not exist.
    pub(super) async fn open(&self, conn: &mut PgConnection, first: &str) -> Result<()> {
        sqlx::query(&self.progress).execute(&mut *conn).await.map_err(reveille_pg::Error::from)?;
        sqlx::query(&self.begin)
            .bind(&self.source)
            .bind(first)
            .execute(conn)
            .await
            .map_err(reveille_pg::Error::from)?;
        Ok(())
    }

    /// The position; `None` if the import has not begun.
    pub(super) async fn position(&self, conn: &mut PgConnection) -> Result<Option<Position>> {
        let query = sqlx::query(&self.position).bind(&self.source);
        let Some(row) = query.fetch_optional(conn).await.map_err(reveille_pg::Error::from)? else { return Ok(None) };
        let read = || {
            let mut counts = [0; 7];
            for (at, count) in counts.iter_mut().enumerate() {
                *count = row.try_get(at + 2)?;
            }
            Ok(Position { stage: row.try_get(0)?, copied_through: row.try_get(1)?, copied: Imported::of(counts) })
        };
        Ok(Some(read().map_err(|error: sqlx::Error| reveille_pg::Error::from(error))?))
    }

    /// The position of an import that has begun.
    pub(super) async fn current(&self, conn: &mut PgConnection) -> Result<Position> {
        // Missing only if the row was deleted by other means.
        Ok(self.position(conn).await?.ok_or_else(|| reveille_pg::Error::from(sqlx::Error::RowNotFound))?)
    }

    pub(super) async fn advance(&self, conn: &mut PgConnection, position: &Position) -> Result<()> {
        let query = sqlx::query(&self.advance).bind(&self.source).bind(&position.stage).bind(&position.copied_through);
        let query = position.copied.named().into_iter().fold(query, |query, (_, count)| query.bind(count as i64));
        query.execute(conn).await.map_err(reveille_pg::Error::from)?;
        Ok(())
    }
}
