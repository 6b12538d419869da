//! Lists of the templates that are registered.

use serde::{Deserialize, Serialize};
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use time::serde::rfc3339;

use crate::error::{Error, Result};
use crate::flow::Flow;
use crate::query::list::PAGE_MAX;

/// Which templates; everything that is not given does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TemplateFilter {
    /// In which namespace,
    pub namespace: Option<String>,
    /// of which name.
    pub name: Option<String>,
}

/// A template that is registered, in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct ListedTemplate {
    /// Its namespace,
    pub namespace: String,
    /// name,
    pub name: String,
    /// and version.
    pub version: String,
    /// For people: its first 1 000 characters.
    pub description: String,
    /// How many steps it has.
    pub step_count: u32,
    /// When it was registered.
    #[serde(with = "rfc3339")]
    #[cfg_attr(feature = "http", schema(value_type = String, format = DateTime))]
    pub created_at: OffsetDateTime,
}

/// Some templates, by namespace and name, and then in the order in which they were registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct TemplatePage {
    /// These.
    pub templates: Vec<ListedTemplate>,
    /// What to present for the next page; none: there are no more.
    pub next: Option<i32>,
}

impl Flow {
    /// A page of the templates that are registered: those after `after`, which is what the page before it said.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a limit that is not between 1 and [`PAGE_MAX`]; else the database's.
    pub async fn templates(&self, filter: &TemplateFilter, after: Option<i32>, limit: usize) -> Result<TemplatePage> {
        if !(1..=PAGE_MAX).contains(&limit) {
            return Err(Error::invalid("limit", format!("it is {limit}; it must be between 1 and {PAGE_MAX}")));
        }
        let query = || {
            sqlx::query(&self.inner.sql.list_templates)
                .bind(filter.namespace.as_deref())
                .bind(filter.name.as_deref())
                .bind(after)
                .bind(limit as i64 + 1)
                // Planned for what is asked: a name leads straight to its templates.
                .persistent(false)
        };
        let mut rows = self.inner.db.ask("list templates", query).await?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| more).map(|row| row.try_get("id")).transpose()?;
        Ok(TemplatePage { templates: rows.iter().map(read).collect::<sqlx::Result<_>>()?, next })
    }
}

fn read(row: &PgRow) -> sqlx::Result<ListedTemplate> {
    Ok(ListedTemplate {
        namespace: row.try_get("namespace")?,
        name: row.try_get("name")?,
        version: row.try_get("version")?,
        description: row.try_get("description")?,
        step_count: row.try_get::<i32, _>("step_count")? as u32,
        created_at: row.try_get("created_at")?,
    })
}
