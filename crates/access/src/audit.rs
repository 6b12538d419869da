//! The audit: who has changed what.
//!
//! The products write its rows in the transactions of their changes; see [`reveille_pg::audit`]. Here are the table, its
//! retention of a year, and its pages.

use std::sync::Arc;

use reveille_pg::audit::Actor;
use reveille_pg::{Database, Schema, Sql};
use reveille_web::Principal;
use sqlx::Row as _;
use time::OffsetDateTime;

use crate::error::Result;

/// The audit of one schema. Cheap to clone.
#[derive(Clone)]
pub struct Audit {
    db: Database,
    record: Sql,
    list: Sql,
}

/// Selects rows. What is not given matches every row.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// Rows before this one.
    pub before: Option<i64>,
    /// Of this client.
    pub actor: Option<String>,
    /// Of this action.
    pub action: Option<String>,
    /// Of this target.
    pub target: Option<String>,
}

/// A row.
#[derive(Clone, Debug)]
pub struct Audited {
    /// Its number.
    pub id: i64,
    /// When the transaction of the change began.
    pub at: OffsetDateTime,
    /// The name of the client.
    pub actor: String,
    /// How it has authenticated.
    pub credentials: String,
    /// What it has done.
    pub action: String,
    /// To what.
    pub target: String,
    /// Further facts, as JSON.
    pub detail: Option<String>,
    /// The id of the request.
    pub request_id: String,
}

impl Audit {
    /// The audit of `schema`.
    pub fn new(db: &Database, schema: &Schema) -> Audit {
        Audit {
            db: db.clone(),
            record: schema.sql(reveille_pg::statement!("record_audit")),
            list: schema.sql(reveille_pg::statement!("list_audit")),
        }
    }

    /// The client of a request, whose changes are recorded.
    pub fn actor(&self, principal: &Principal, request_id: &str) -> Arc<Actor> {
        Arc::new(Actor {
            record: self.record.clone(),
            name: principal.name().to_owned(),
            credentials: principal.credentials().as_str(),
            request: request_id.to_owned(),
        })
    }

    /// A page, newest first. It reads at most 10 000 rows, so with a filter it may be short although there are more.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn list(&self, filter: &AuditFilter, limit: usize) -> Result<Vec<Audited>> {
        let AuditFilter { before, actor, action, target } = filter;
        let query = || sqlx::query(&self.list).bind(before).bind(actor).bind(action).bind(target).bind(limit as i64);
        let rows = self.db.ask("read the audit", query).await?;
        let rows = rows.iter().map(|row| {
            Ok(Audited {
                id: row.try_get(0)?,
                at: row.try_get(1)?,
                actor: row.try_get(2)?,
                credentials: row.try_get(3)?,
                action: row.try_get(4)?,
                target: row.try_get(5)?,
                detail: row.try_get(6)?,
                request_id: row.try_get(7)?,
            })
        });
        Ok(rows.collect::<sqlx::Result<_>>()?)
    }
}

impl std::fmt::Debug for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Audit").finish_non_exhaustive()
    }
}
