//! Namespace templates: named settings for new namespaces.

use reveille_pg::audit::Entry;
use serde::Serialize;
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::error::Result;
use crate::flow::Flow;
use crate::namespace::{NamespaceSettings, check_name, check_poll, settings};
use crate::task::retention::check_retention;

/// Named settings for new namespaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct NamespaceTemplate {
    /// The name of the namespace template.
    pub name: String,
    /// The settings of a namespace that is created with it.
    #[serde(flatten)]
    pub settings: NamespaceSettings,
}

impl Flow {
    /// Creates or replaces a namespace template. `default` is used for namespaces without one.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for an invalid parameter; otherwise a database error.
    pub async fn put_namespace_template(&self, name: &str, settings: &NamespaceSettings) -> Result<()> {
        check_name(name)?;
        check_poll(Some(settings.poll_ms))?;
        check_retention("retention_seconds", settings.retention_seconds)?;
        check_retention("failed_retention_seconds", settings.failed_retention_seconds)?;
        self.inner.providers.get(settings.provider)?;
        let query = || {
            sqlx::query(&self.inner.sql.put_namespace_template)
                .bind(name)
                .bind(settings.mode.word())
                .bind(settings.poll_ms as i32)
                .bind(settings.fallback_enabled)
                .bind(settings.provider.word())
                .bind(settings.announces)
                .bind(settings.retention_seconds.map(|seconds| seconds as i64))
                .bind(settings.failed_retention_seconds.map(|seconds| seconds as i64))
        };
        self.inner
            .db
            .act("put a namespace template", Entry::new("namespace_template.put", name), query, |_| true)
            .await?;
        Ok(())
    }

    /// All namespace templates, ordered by name.
    ///
    /// # Errors
    /// A database error.
    pub async fn namespace_templates(&self) -> Result<Vec<NamespaceTemplate>> {
        let query = || sqlx::query(&self.inner.sql.namespace_templates);
        let rows = self.inner.db.ask("read namespace templates", query).await?;
        let read = |row: &PgRow| Ok(NamespaceTemplate { name: row.try_get("name")?, settings: settings(row)? });
        Ok(rows.iter().map(read).collect::<sqlx::Result<_>>()?)
    }

    /// Deletes a namespace template. Namespaces that were created with it do not change. `false`: there was none.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for an invalid name; otherwise a database error.
    pub async fn delete_namespace_template(&self, name: &str) -> Result<bool> {
        check_name(name)?;
        let query = || sqlx::query(&self.inner.sql.delete_namespace_template).bind(name);
        let entry = Entry::new("namespace_template.delete", name);
        Ok(!self.inner.db.act("delete a namespace template", entry, query, |rows| !rows.is_empty()).await?.is_empty())
    }
}
