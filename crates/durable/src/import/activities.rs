//! Activities. The process reads them, because in some versions only the work item contains the instance.

use duroxide::providers::WorkItem;
use reveille_pg::{Schema, Sql};
use sqlx::{PgConnection, Row};

use super::error::{Error, Result};
use crate::write::ScheduledActivity;

/// Copies activities, for one source and one target.
pub(super) struct Activities {
    source: String,
    read: Sql,
    copy: Sql,
}

impl Activities {
    pub(super) fn new(source: &Schema, target: &Schema) -> Activities {
        let both = |text| target.sql_with(text, &[("source", source.quoted())]);
        Activities {
            source: source.name().to_owned(),
            read: both(reveille_pg::statement!("import/read_activities")),
            copy: both(reveille_pg::statement!("import/copy_activities")),
        }
    }

    /// Copies the activities from one id to another. Returns how many.
    pub(super) async fn copy(&self, conn: &mut PgConnection, first: &str, last: &str) -> Result<u64> {
        let query = sqlx::query(&self.read).bind(first).bind(last);
        let rows = query.fetch_all(&mut *conn).await.map_err(reveille_pg::Error::from)?;
        let mut ids: Vec<i64> = Vec::with_capacity(rows.len());
        let mut all: Vec<ScheduledActivity> = Vec::with_capacity(rows.len());
        for row in &rows {
            let id = row.try_get(0).map_err(reveille_pg::Error::from)?;
            all.push(self.activity(id, row.try_get(1).map_err(reveille_pg::Error::from)?)?);
            ids.push(id);
        }
        let query = sqlx::query_scalar::<_, i64>(&self.copy)
            .bind(ids)
            .bind(all.iter().map(|activity| activity.instance.as_str()).collect::<Vec<_>>())
            .bind(all.iter().map(|activity| activity.execution).collect::<Vec<_>>())
            .bind(all.iter().map(|activity| activity.activity).collect::<Vec<_>>())
            .bind(all.iter().map(|activity| activity.tag_queue.as_str()).collect::<Vec<_>>())
            .bind(all.iter().map(|activity| activity.session.as_deref()).collect::<Vec<_>>());
        Ok(query.fetch_one(conn).await.map_err(reveille_pg::Error::from)?.unsigned_abs())
    }

    fn activity(&self, id: i64, text: &str) -> Result<ScheduledActivity> {
        let unreadable = |reason| Error::Unreadable { schema: self.source.clone(), id, reason };
        // The message of serde may quote user data, so only the column is used.
        let item: WorkItem =
            serde_json::from_str(text).map_err(|error| unreadable(format!("at column {}", error.column())))?;
        ScheduledActivity::new("import", &item).map_err(|error| unreadable(error.message))
    }
}
