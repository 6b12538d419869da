//! The keys and values of an instance.

use reveille_web::Timestamp;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::{Instances, maybe_text, number, text};
use crate::error::Result;
use crate::text::escape;

/// The largest page. duroxide allows 150 keys of 64 KB each.
pub(crate) const KEYS_MAX: u64 = 200;

/// A page of keys.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = KeyPage)]
pub(crate) struct KeyPage {
    /// Those of this page, by name.
    pub(crate) keys: Vec<KeyValue>,
    /// The `after` of the next page; null if this is the last.
    pub(crate) next: Option<String>,
}

/// A key and its value.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = KeyValue)]
pub(crate) struct KeyValue {
    /// The key.
    pub(crate) key: String,
    /// The value; null if it is larger than a megabyte, or the client may not see payloads.
    pub(crate) value: Option<String>,
    /// The bytes of the value.
    pub(crate) value_bytes: u64,
    /// When it was set; null for one of an older version of duroxide.
    #[schema(value_type = Option<String>, format = "date-time")]
    pub(crate) updated_at: Option<Timestamp>,
}

impl Instances {
    /// Keys after one, by name. An instance that does not exist has none.
    pub(crate) async fn keys(&self, instance: &str, after: &str, limit: u64) -> Result<KeyPage> {
        let (id, after) = (escape(instance).into_owned(), escape(after).into_owned());
        let rows = self.ask("list keys", || {
            sqlx::query(&self.inner.sql.keys).bind(id.clone()).bind(after.clone()).bind(limit as i64 + 1)
        });
        let rows = rows.await?;
        let shown = &rows[..rows.len().min(limit as usize)];
        let read = |row| -> reveille_pg::Result<KeyValue> {
            let millis = number(row, "last_updated_at_ms")?;
            Ok(KeyValue {
                key: text(row, "key")?,
                value: maybe_text(row, "value")?,
                value_bytes: number(row, "value_bytes")?,
                updated_at: at_millis(millis),
            })
        };
        let keys: Vec<KeyValue> = shown.iter().map(read).collect::<reveille_pg::Result<_>>()?;
        let next = keys.last().filter(|_| rows.len() > shown.len()).map(|last| last.key.clone());
        Ok(KeyPage { keys, next })
    }
}

/// A time as duroxide writes it; zero means unknown.
pub(crate) fn at_millis(millis: u64) -> Option<Timestamp> {
    let nanos = i128::from(millis) * 1_000_000;
    let time = OffsetDateTime::from_unix_timestamp_nanos(nanos).ok();
    time.filter(|_| millis > 0).map(Timestamp)
}
