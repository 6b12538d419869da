//! Activities: read by the program, because only their work items say in every version whose they are.

use duroxide::providers::WorkItem;
use pg::{Schema, Sql};
use sqlx::{PgConnection, Row};

use super::error::{Error, Result};
use crate::message::Work;

/// How activities are carried over, for one source and one target.
pub(super) struct Activities {
    source: String,
    read: Sql,
    carry: Sql,
}

impl Activities {
    pub(super) fn new(source: &Schema, target: &Schema) -> Activities {
        let both = |text| target.sql_with(text, &[("source", source.quoted())]);
        Activities {
            source: source.name().to_owned(),
            read: both(pg::statement!("import/read_activities")),
            carry: both(pg::statement!("import/carry_activities")),
        }
    }

    /// Carries over those from one number to another. Answers how many.
    pub(super) async fn carry(&self, conn: &mut PgConnection, first: &str, last: &str) -> Result<u64> {
        let query = sqlx::query(&self.read).bind(first).bind(last);
        let rows = query.fetch_all(&mut *conn).await.map_err(pg::Error::from)?;
        let mut ids: Vec<i64> = Vec::with_capacity(rows.len());
        let mut all: Vec<Work> = Vec::with_capacity(rows.len());
        for row in &rows {
            let id = row.try_get(0).map_err(pg::Error::from)?;
            all.push(self.activity(id, row.try_get(1).map_err(pg::Error::from)?)?);
            ids.push(id);
        }
        let query = sqlx::query_scalar::<_, i64>(&self.carry)
            .bind(ids)
            .bind(all.iter().map(|work| work.instance.as_str()).collect::<Vec<_>>())
            .bind(all.iter().map(|work| work.execution).collect::<Vec<_>>())
            .bind(all.iter().map(|work| work.activity).collect::<Vec<_>>())
            .bind(all.iter().map(|work| work.lane.as_str()).collect::<Vec<_>>())
            .bind(all.iter().map(|work| work.session.as_deref()).collect::<Vec<_>>());
        Ok(query.fetch_one(conn).await.map_err(pg::Error::from)?.unsigned_abs())
    }

    fn activity(&self, id: i64, text: &str) -> Result<Work> {
        let unreadable = |reason| Error::Unreadable { schema: self.source.clone(), id, reason };
        // The reason quotes what it stumbles over, which is the user's.
        let item: WorkItem =
            serde_json::from_str(text).map_err(|error| unreadable(format!("at column {}", error.column())))?;
        Work::new("import", &item).map_err(|error| unreadable(error.message))
    }
}
