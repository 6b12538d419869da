//! How many steps may be under way at once.

use serde::Serialize;
use sqlx::Row;

use crate::error::{Error, Result};
use crate::flow::Flow;

/// A limit, and how much of it is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct Limit {
    /// In this namespace.
    pub namespace: String,
    /// On the steps of this name; `None`: on all together.
    pub step: Option<String>,
    /// Steps under way at most.
    pub max_in_progress: u32,
    /// Steps under way.
    pub in_progress: u32,
}

impl Flow {
    /// Limits how many steps of a namespace, or of a name in it, may be under way at once; `None`: no more. What is under way goes on; what is due waits until there is room.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such namespace, or the limit cannot be meant; else the database's.
    pub async fn limit(&self, namespace: &str, step: Option<&str>, max_in_progress: Option<u32>) -> Result<()> {
        if step == Some("") {
            return Err(Error::invalid("step", "it is empty"));
        }
        let most = max_in_progress.map(i32::try_from).transpose();
        let most = most.map_err(|_| Error::invalid("max_in_progress", format!("the limit is {}", i32::MAX)))?;
        let query = || sqlx::query(&self.inner.sql.limit_steps).bind(namespace).bind(step.unwrap_or("")).bind(most);
        let rows = self.inner.db.ask("limit steps", query).await?;
        if !rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get::<bool, _>(0)? {
            return Err(Error::invalid("namespace", format!("there is none called {namespace:?}")));
        }
        Ok(())
    }

    /// The limits, all or those of a namespace.
    ///
    /// # Errors
    /// The database's.
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
