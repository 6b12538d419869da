//! Lists of registered templates.

use serde::{Deserialize, Serialize};
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use time::serde::rfc3339;

use crate::error::{Error, Result};
use crate::flow::Flow;
use crate::query::list::PAGE_MAX;

/// Selects templates. Fields that are not given match everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TemplateFilter {
    /// In this namespace.
    pub namespace: Option<String>,
    /// With this name.
    pub name: Option<String>,
}

/// A registered template, without its steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct ListedTemplate {
    /// The namespace of the template.
    pub namespace: String,
    /// The name of the template.
    pub name: String,
    /// The version of the template.
    pub version: String,
    /// The first 1 000 characters of the description.
    pub description: String,
    /// The number of its steps.
    pub step_count: u32,
    /// When it was registered.
    #[serde(with = "rfc3339")]
    #[cfg_attr(feature = "http", schema(value_type = String, format = DateTime))]
    pub created_at: OffsetDateTime,
}

/// A page of templates, ordered by namespace, name and registration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct TemplatePage {
    /// The templates of this page.
    pub templates: Vec<ListedTemplate>,
    /// The `after` of the next page; none if this is the last.
    pub next: Option<i32>,
}

impl Flow {
    /// A page of registered templates. `after` is the `next` of the previous page.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a limit not between 1 and [`PAGE_MAX`]; otherwise a database error.
    pub async fn templates(&self, filter: &TemplateFilter, after: Option<i32>, limit: usize) -> Result<TemplatePage> {
        if !(1..=PAGE_MAX).contains(&limit) {
            return Err(Error::invalid("limit", format!("must be between 1 and {PAGE_MAX}, got {limit}")));
        }
        let query = || {
            sqlx::query(&self.inner.sql.list_templates)
                .bind(filter.namespace.as_deref())
                .bind(filter.name.as_deref())
                .bind(after)
                .bind(limit as i64 + 1)
                // Plan for this filter: a name leads straight to its templates.
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
