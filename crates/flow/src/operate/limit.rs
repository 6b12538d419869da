//! Limits on the number of steps in progress.

use crate::namespace::is_true;
use reveille_pg::audit::Entry;
use serde::Serialize;
use sqlx::Row;

use crate::error::{Error, Result};
use crate::flow::Flow;

/// A limit on the number of steps in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct Limit {
    /// The namespace.
    pub namespace: String,
    /// The name of the steps; `None`: all steps together.
    pub step: Option<String>,
    /// The most steps in progress.
    pub max_in_progress: u32,
    /// The steps in progress now.
    pub in_progress: u32,
}

impl Flow {
    /// Limits how many steps of a namespace, or of one name in it, may be in progress at once; `None` removes the
    /// limit. Steps in progress continue; due steps wait until others have ended.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unknown namespace or an invalid limit; otherwise a database error.
    pub async fn limit(&self, namespace: &str, step: Option<&str>, max_in_progress: Option<u32>) -> Result<()> {
        if step == Some("") {
            return Err(Error::invalid("step", "must not be empty"));
        }
        let most = max_in_progress.map(i32::try_from).transpose();
        let most = most.map_err(|_| Error::invalid("max_in_progress", format!("must be at most {}", i32::MAX)))?;
        let query = || sqlx::query(&self.inner.sql.limit_steps).bind(namespace).bind(step.unwrap_or("")).bind(most);
        let target = step.map_or_else(|| namespace.to_owned(), |step| format!("{namespace}/{step}"));
        let entry = Entry::new("limit.set", target);
        let rows = self.inner.db.act("limit steps", entry, query, |rows| is_true(rows.first())).await?;
        if !rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get::<bool, _>(0)? {
            return Err(Error::invalid("namespace", format!("there is no namespace {namespace:?}")));
        }
        Ok(())
    }

    /// The limits of a namespace (`None`: of all).
    ///
    /// # Errors
    /// A database error.
    pub async fn limits(&self, namespace: Option<&str>) -> Result<Vec<Limit>> {
        let rows = self.inner.db.ask("read limits", || sqlx::query(&self.inner.sql.limits).bind(namespace)).await?;
        let limits = rows.iter().map(|row| {
            let step: String = row.try_get("step")?;
            Ok(Limit {
                namespace: row.try_get("namespace")?,
                step: Some(step).filter(|step| !step.is_empty()),
                max_in_progress: row.try_get::<i32, _>("max_running")?.max(0) as u32,
                in_progress: row.try_get::<i32, _>("running")?.max(0) as u32,
            })
        });
        Ok(limits.collect::<sqlx::Result<_>>()?)
    }
}
